//! What keeps a GPU from being used.
use crate::error::static_text;
use crate::{Severity, Topic, sys};
use std::ffi::{CStr, c_char, c_void};
use std::fmt;

/// One finding of [`diagnose`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub topic: Topic,
    /// How grave it is.
    pub severity: Severity,
    /// What was found, without a full stop.
    pub sentence: String,
    /// What to do, with the command to type; empty where nothing needs to be done.
    pub remedy: String,
}

/// The findings of [`diagnose`], the causes before their consequences. It prints as a list of lines.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnosis {
    /// In the order in which they were found.
    pub findings: Vec<Finding>,
}

/// Examines the machine, the environment and this build: the files of AMD's kernel driver, the runtimes, the GPUs, the
/// code in this build, the libraries, and the device that [`Device::open_best`](crate::Device::open_best) takes. It
/// needs no GPU and cannot fail: what is missing is a finding. `crk_diagnose` in C.
pub fn diagnose() -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    // SAFETY: `keep` gets this pointer back, in this thread and during the call.
    unsafe { sys::crk_diagnose(Some(keep), (&raw mut diagnosis).cast()) };
    diagnosis
}

/// # Safety
/// `user` is a Diagnosis that nothing else uses. The texts of the finding are NUL-terminated.
unsafe extern "C" fn keep(user: *mut c_void, finding: *const sys::crk_finding_t) {
    // SAFETY: the caller's promise.
    let (diagnosis, finding) = unsafe { (&mut *user.cast::<Diagnosis>(), &*finding) };
    // SAFETY: the caller's promise.
    diagnosis.findings.push(unsafe { Finding::from_raw(finding) });
}

impl Finding {
    /// # Safety
    /// The texts are NUL-terminated.
    #[doc(hidden)] // for crk_diagnose and the tests
    pub unsafe fn from_raw(finding: &sys::crk_finding_t) -> Finding {
        // SAFETY: the caller's promise.
        let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        Finding {
            topic: finding.topic,
            severity: finding.severity,
            sentence: text(finding.sentence),
            remedy: text(finding.remedy),
        }
    }
}

impl Diagnosis {
    /// The findings that keep a GPU from running this build's code.
    pub fn problems(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Problem)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<7}  {:<12}  {}", self.severity.name(), self.topic.name(), self.sentence)?;
        if !self.remedy.is_empty() {
            write!(f, "\n{:<23}  -> {}", "", self.remedy)?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finding) in self.findings.iter().enumerate() {
            write!(f, "{}{finding}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl sys::crk_severity {
    /// Its name: `"ok"`, `"note"` or `"problem"`.
    pub fn name(self) -> &'static str {
        // SAFETY: takes any value; the text is static.
        unsafe { static_text(sys::crk_severity_name(self)) }.unwrap_or("unknown")
    }
}

impl sys::crk_topic {
    /// Its key, such as `"kfd"`.
    pub fn name(self) -> &'static str {
        // SAFETY: takes any value; the text is static.
        unsafe { static_text(sys::crk_topic_name(self)) }.unwrap_or("unknown")
    }
}
