//! crk_diagnose, the names of devices, and that no program takes the CPU by mistake. The tests make up the files that
//! Linux shows of AMD GPUs, below a folder of their own, and take the double of libamdhip64 (tests/double) for the
//! runtime.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys::{Backend, Device, Diagnosis, Finding, Severity, Status, Topic, diagnose, sys};
use candle_rocm_sys_tests::support::paths::SCRATCH;
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use candle_rocm_sys_tests::support::hip_double;
#[path = "../examples/support/program.rs"]
mod program;
use hip_double::alone;

/// crk_machine_t of csrc/os/kfd.h.
#[repr(C)]
struct Machine {
    root: *const c_char,
    is_usable: unsafe extern "C" fn(*const c_char) -> bool,
    is_permitted: unsafe extern "C" fn(*const c_char) -> bool,
    in_group: unsafe extern "C" fn(u32) -> bool,
    user: u32,
}

extern "C" {
    fn crk_priv_diagnose(machine: *const Machine, visit: sys::crk_finding_fn, user: *mut c_void);
    fn crk_priv_file_usable(path: *const c_char) -> bool;
    fn crk_priv_file_permitted(path: *const c_char) -> bool;
    fn crk_priv_in_group(group: u32) -> bool;
    fn crk_priv_user() -> u32;
    fn crk_priv_architecture_name(version: u64, name: *mut c_char, size: usize);
}

unsafe extern "C" fn in_no_group(_: u32) -> bool {
    false
}

unsafe extern "C" fn permits_none(_: *const c_char) -> bool {
    false
}

unsafe extern "C" fn permits_each(_: *const c_char) -> bool {
    true
}

unsafe extern "C" fn in_each_group(_: u32) -> bool {
    true
}

fn ends_with(path: *const c_char, end: &str) -> bool {
    // SAFETY: the library's path.
    unsafe { CStr::from_ptr(path) }.to_string_lossy().ends_with(end)
}

unsafe extern "C" fn all_but_kfd(path: *const c_char) -> bool {
    // SAFETY: the library's path.
    !ends_with(path, "/dev/kfd") && unsafe { crk_priv_file_usable(path) }
}

unsafe extern "C" fn all_but_render(path: *const c_char) -> bool {
    // SAFETY: the library's path.
    !ends_with(path, "/dev/dri/renderD128") && unsafe { crk_priv_file_usable(path) }
}

/// A folder with the files of a machine, and how this process sees them.
struct Fake {
    root: PathBuf,
    machine: Machine,
    _text: CString, // the machine's root
}

impl Fake {
    /// A machine without a GPU. Its user alice is this process's, and render is the group of its files.
    fn new(test: &str) -> Fake {
        let root = Path::new(SCRATCH).join("diagnose").join(test);
        let _ = std::fs::remove_dir_all(&root);
        // The variables of this machine's user.
        for name in ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"] {
            if std::env::var_os(name).is_some_and(|value| value != "-1") {
                std::env::remove_var(name);
            }
        }
        let text = CString::new(root.to_str().expect("UTF-8")).expect("no NUL");
        // SAFETY: it only asks the system.
        let user = unsafe { crk_priv_user() };
        let fake = Fake {
            root,
            machine: Machine {
                root: text.as_ptr(),
                is_usable: crk_priv_file_usable,
                is_permitted: permits_none,
                in_group: in_each_group,
                user,
            },
            _text: text,
        };
        fake.file("etc/passwd", &format!("root:x:99999:0::/:/bin/sh\nalice:x:{user}:1000::/home/alice:/bin/sh\n"));
        fake
    }

    fn file(&self, path: &str, text: &str) -> &Fake {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
        self
    }

    /// /dev/kfd for its group, which has these members.
    fn kfd(&self, members: &str) -> &Fake {
        self.file("dev/kfd", "");
        let path = self.root.join("dev/kfd");
        let group = path.metadata().expect("it is there").gid();
        self.mode("dev/kfd", 0o660).file("etc/group", &format!("video:x:77777:\nrender:x:{group}:{members}\n"))
    }

    fn mode(&self, path: &str, mode: u32) -> &Fake {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(self.root.join(path), mode).expect("the test's file");
        self
    }

    /// A GPU of the kernel driver's, with its file in /dev/dri.
    fn gpu(&self, node: u32, version: u32, name: &str) -> &Fake {
        let folder = "sys/class/kfd/kfd/topology/nodes";
        self.file(&format!("{folder}/0/properties"), "cpu_cores_count 8\ngfx_target_version 0\n");
        let minor = 127 + node;
        let properties =
            format!("cpu_cores_count 0\nsimd_count 192\ngfx_target_version {version}\ndrm_render_minor {minor}\n");
        self.file(&format!("{folder}/{node}/properties"), &properties);
        self.file(&format!("{folder}/{node}/name"), &format!("{name}\n"));
        self.file(&format!("dev/dri/renderD{minor}"), "").mode(&format!("dev/dri/renderD{minor}"), 0o660)
    }

    /// A whole machine with a gfx1100.
    fn navi31(&self) -> &Fake {
        self.kfd("").gpu(1, 110_000, "navi31")
    }

    fn diagnose(&self) -> Diagnosis {
        unsafe extern "C" fn keep(user: *mut c_void, finding: *const sys::crk_finding_t) {
            // SAFETY: the vector below, and the library's finding.
            let (findings, finding) = unsafe { (&mut *user.cast::<Vec<Finding>>(), &*finding) };
            // SAFETY: the library's texts.
            for text in [finding.sentence, finding.remedy] {
                unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8");
            }
            // SAFETY: the library's texts.
            findings.push(unsafe { Finding::from_raw(finding) });
        }
        let mut findings: Vec<Finding> = Vec::new();
        // SAFETY: the machine and the vector outlive the call.
        unsafe { crk_priv_diagnose(&self.machine, Some(keep), (&raw mut findings).cast()) };
        for finding in &findings {
            assert!(!finding.sentence.is_empty() && !finding.sentence.ends_with('.'), "{finding:?}");
            let needs_remedy = finding.severity == Severity::Problem;
            assert!(!needs_remedy || !finding.remedy.is_empty(), "no way out of {finding:?}");
            // An error sentence with a remedy at its end is parted at its last semicolon.
            assert!(!needs_remedy || !finding.remedy.contains("; "), "parts of a way out: {finding:?}");
            assert_ne!(finding.topic.name(), "unknown", "{finding:?}");
        }
        let mut diagnosis = Diagnosis::default();
        diagnosis.findings = findings;
        diagnosis
    }
}

/// The first problem, which is the one that a user has to solve first.
#[track_caller]
fn first_problem(diagnosis: &Diagnosis, topic: Topic, sentence: &str, remedy: &str) {
    let found = diagnosis.problems().next().unwrap_or_else(|| panic!("no problem:\n{diagnosis}"));
    let expected = (topic, sentence, remedy);
    assert_eq!((found.topic, &*found.sentence, &*found.remedy), expected, "\n{diagnosis}");
    documented(sentence);
}

#[track_caller]
fn has(diagnosis: &Diagnosis, topic: Topic, severity: Severity, sentence: &str) {
    let found = diagnosis
        .findings
        .iter()
        .any(|finding| finding.topic == topic && finding.severity == severity && finding.sentence.contains(sentence));
    assert!(found, "no {} of {} with '{sentence}':\n{diagnosis}", severity.name(), topic.name());
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// docs/troubleshooting.md shows the sentence as it is.
#[track_caller]
fn documented(sentence: &str) {
    let page = include_str!("../docs/troubleshooting.md");
    assert!(one_line(page).contains(&one_line(sentence)), "docs/troubleshooting.md has not: {sentence}");
}

const NO_RUNTIME: (&str, &str) = ("CANDLE_ROCM_HIP_LIBRARY", "/nowhere/libamdhip64.so");
const NO_DEVICE: (&str, &str) = ("HIP_DOUBLE_DEVICES", "0");

// ---- the kernel driver

#[test]
fn a_machine_without_a_gpu() {
    let test = "a_machine_without_a_gpu";
    alone(test, "gfx1100", 6, &[NO_RUNTIME], || {
        let found = Fake::new("a_machine_without_a_gpu").diagnose();
        let remedy = "CANDLE_ROCM_DEVICE=cpu:32 runs the same kernels on the CPU";
        first_problem(&found, Topic::Kfd, "there is no /dev/kfd, and no AMD GPU among the PCI devices", remedy);
        has(&found, Topic::HipRuntime, Severity::Problem, "/nowhere/libamdhip64.so");
        has(&found, Topic::Choice, Severity::Note, "CRK_BACKEND_AUTO skips hip: the HIP runtime /nowhere/");
        has(&found, Topic::Choice, Severity::Problem, "CRK_BACKEND_AUTO takes the CPU, although");
    });
}

#[test]
fn a_gpu_without_its_kernel_driver() {
    let test = "a_gpu_without_its_kernel_driver";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let fake = Fake::new("a_gpu_without_its_kernel_driver");
        let pci = "sys/bus/pci/devices";
        // A processor of AMD's, and a GPU of another vendor.
        fake.file(&format!("{pci}/0000:00:00.0/vendor"), "0x1022\n");
        fake.file(&format!("{pci}/0000:01:00.0/vendor"), "0x10de\n");
        fake.file(&format!("{pci}/0000:01:00.0/class"), "0x030000\n");
        // The audio function of an AMD GPU.
        fake.file(&format!("{pci}/0000:03:00.1/vendor"), "0x1002\n");
        fake.file(&format!("{pci}/0000:03:00.1/class"), "0x040300\n");
        has(&fake.diagnose(), Topic::Kfd, Severity::Problem, "no AMD GPU among the PCI devices");
        fake.file(&format!("{pci}/0000:03:00.0/vendor"), "0x1002\n");
        fake.file(&format!("{pci}/0000:03:00.0/class"), "0x030000\n");
        let found = fake.diagnose();
        let sentence = "there is no /dev/kfd, although there is an AMD GPU (PCI 0000:03:00.0): the kernel driver \
                        amdgpu is not loaded, or it does not support the GPU";
        let remedy =
            "sudo modprobe amdgpu, and if that does not help, sudo dmesg | grep -i -e kfd -e amdgpu shows the reason";
        first_problem(&found, Topic::Kfd, sentence, remedy);
        // /dev/kfd alone is not enough.
        let found = fake.kfd("").diagnose();
        let sentence = "/dev/kfd is there, but the kernel driver lists no GPU in /sys/class/kfd";
        first_problem(&found, Topic::KernelGpu, sentence, remedy);
    });
}

#[test]
fn a_container_without_the_device_files() {
    let test = "a_container_without_the_device_files";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let mut fake = Fake::new("a_container_without_the_device_files");
        let found = fake.file(".dockerenv", "").diagnose();
        has(&found, Topic::Container, Severity::Note, "in a container");
        let remedy = "start the container with --device /dev/kfd --device /dev/dri and the groups that own these files \
                      on the host (docs/troubleshooting.md has the command)";
        first_problem(&found, Topic::Kfd, "there is no /dev/kfd in this container", remedy);
        // The container shows the host's PCI devices.
        let pci = "sys/bus/pci/devices/0000:01:00.0";
        let found = fake.file(&format!("{pci}/vendor"), "0x10de\n").diagnose();
        has(&found, Topic::Kfd, Severity::Problem, "no AMD GPU among the PCI devices");
        let found =
            fake.file(&format!("{pci}/vendor"), "0x1002\n").file(&format!("{pci}/class"), "0x030000\n").diagnose();
        has(&found, Topic::Kfd, Severity::Problem, "there is no /dev/kfd in this container");
        // The number of the group has no name in most images.
        fake.navi31().file("etc/group", "root:x:99999:\n");
        let group = fake.root.join("dev/kfd").metadata().expect("it is there").gid();
        fake.machine.is_usable = all_but_kfd;
        fake.machine.in_group = in_no_group;
        let found = fake.diagnose();
        let problem = found.problems().next().expect("no permission");
        let sentence = format!("no permission on /dev/kfd: user alice is not in group {group}, which has no name here");
        assert_eq!(problem.sentence, sentence);
        assert_eq!(problem.remedy, format!("start the container with --group-add {group}"));
    });
}

#[test]
fn wsl_needs_no_kfd() {
    let test = "wsl_needs_no_kfd";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let found = Fake::new("wsl_needs_no_kfd").file("dev/dxg", "").diagnose();
        has(&found, Topic::Wsl, Severity::Note, "this is WSL");
        has(&found, Topic::Kfd, Severity::Ok, "WSL needs none");
        let remedy = "install ROCm for WSL with librocdxg, and set HSA_ENABLE_DXG_DETECTION=1 (docs/troubleshooting.md \
                      has the link)";
        first_problem(&found, Topic::HipDevices, "the HIP runtime shows no GPU on WSL", remedy);
    });
}

#[test]
fn no_permission_on_kfd() {
    let test = "no_permission_on_kfd";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let mut fake = Fake::new("no_permission_on_kfd");
        fake.machine.is_usable = all_but_kfd;
        fake.machine.in_group = in_no_group;
        let found = fake.navi31().diagnose();
        let sentence = "no permission on /dev/kfd: user alice is not in group render";
        first_problem(&found, Topic::Kfd, sentence, "sudo usermod -aG render $USER, then log in again");
        has(&found, Topic::HipDevices, Severity::Problem, "the HIP runtime shows no GPU");
        // The user is in the group, but the session is older. Names that only begin or end alike are others.
        has(&fake.kfd("malice,alices").diagnose(), Topic::Kfd, Severity::Problem, "is not in group render");
        let found = fake.kfd("bob,alice").diagnose();
        let sentence = "no permission on /dev/kfd: user alice was added to group render after this session began";
        first_problem(&found, Topic::Kfd, sentence, "log out and in again, or run newgrp render in this terminal");
        // A directory service may have the group, and /etc/group not.
        fake.file("etc/group", "root:x:99999:\n");
        let group = fake.root.join("dev/kfd").metadata().expect("it is there").gid();
        let found = fake.diagnose();
        let problem = found.problems().next().expect("no permission");
        assert_eq!(problem.remedy, format!("ask who set up this machine to add you to group {group}"));
        // Nobody is told to join the group root.
        let found = fake.file("etc/group", &format!("root:x:{group}:\n")).diagnose();
        let sentence = "no permission on /dev/kfd: its group is root, which is for administrators";
        let remedy = "sudo chgrp render /dev/kfd && sudo chmod 0660 /dev/kfd, or install ROCm's udev rules, which do \
                      that at every start";
        first_problem(&found, Topic::Kfd, sentence, remedy);
        // The group may not use the file.
        fake.machine.in_group = in_each_group;
        let found = fake.mode("dev/kfd", 0o600).diagnose();
        let sentence = "no permission on /dev/kfd: its mode is 0600, so its group may not use it";
        let remedy = "sudo chmod 0660 /dev/kfd, or install ROCm's udev rules, which do that at every start";
        first_problem(&found, Topic::Kfd, sentence, remedy);
        // It may, and still may not.
        let found = fake.mode("dev/kfd", 0o660).diagnose();
        has(&found, Topic::Kfd, Severity::Problem, "although user alice is in its group");
    });
}

#[test]
fn no_permission_on_the_gpu_s_file() {
    let test = "no_permission_on_the_gpu_s_file";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let mut fake = Fake::new("no_permission_on_the_gpu_s_file");
        fake.machine.is_usable = all_but_render;
        fake.machine.in_group = in_no_group;
        let found = fake.navi31().diagnose();
        has(&found, Topic::Kfd, Severity::Ok, "/dev/kfd is there");
        let sentence = "no permission on /dev/dri/renderD128: user alice is not in group render";
        first_problem(&found, Topic::Render, sentence, "sudo usermod -aG render $USER, then log in again");
        // With another GPU that can be used it is no problem.
        let found = fake.gpu(2, 110_001, "navi32").diagnose();
        has(&found, Topic::Render, Severity::Note, sentence);
        has(&found, Topic::Render, Severity::Ok, "/dev/dri/renderD129");
        std::fs::remove_file(fake.root.join("dev/dri/renderD128")).expect("a file of this test's");
        std::fs::remove_file(fake.root.join("dev/dri/renderD129")).expect("a file of this test's");
        has(&fake.diagnose(), Topic::Render, Severity::Problem, "there is no /dev/dri/renderD129");
    });
}

#[test]
fn permissions_are_the_system_s() {
    let folder = Path::new(SCRATCH).join("diagnose/permissions");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("file");
    std::fs::write(&file, "").expect("a file");
    let path = |path: &Path| CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
    // SAFETY: NUL-terminated paths.
    unsafe {
        assert!(crk_priv_file_usable(path(&file).as_ptr()));
        assert!(!crk_priv_file_usable(path(&folder.join("nothing")).as_ptr()));
        assert!(crk_priv_in_group(file.metadata().expect("it is there").gid()), "new files have a group of the user's");
        assert!(!crk_priv_in_group(0x7fff_1234));
    }
}

#[test]
fn the_kernel_driver_s_numbers_are_names() {
    let numbers = [
        (90_000, "gfx900"),
        (90_010, "gfx90a"),
        (90_402, "gfx942"),
        (90_500, "gfx950"),
        (100_300, "gfx1030"),
        (110_501, "gfx1151"),
        (120_001, "gfx1201"),
    ];
    for (version, expected) in numbers {
        let mut name = [0 as c_char; 16];
        // SAFETY: the array has as many bytes.
        let name = unsafe {
            crk_priv_architecture_name(version, name.as_mut_ptr(), name.len());
            CStr::from_ptr(name.as_ptr())
        };
        assert_eq!(name.to_str(), Ok(expected));
    }
}

// ---- the runtime

#[test]
fn a_gpu_without_a_runtime() {
    let test = "a_gpu_without_a_runtime";
    alone(test, "gfx1100", 6, &[NO_RUNTIME], || {
        let found = Fake::new("a_gpu_without_a_runtime").navi31().diagnose();
        has(&found, Topic::Kfd, Severity::Ok, "/dev/kfd is there, and this process may read and write it");
        has(&found, Topic::KernelGpu, Severity::Ok, "the kernel driver sees a gfx1100 (navi31) at node 1");
        has(&found, Topic::Render, Severity::Ok, "/dev/dri/renderD128 is there");
        let problem = found.problems().next().expect("no runtime");
        assert_eq!(problem.topic, Topic::HipRuntime, "{found}");
        assert!(problem.sentence.starts_with("the HIP runtime /nowhere/libamdhip64.so, named by"), "{problem}");
        assert_eq!(problem.remedy, "correct CANDLE_ROCM_HIP_LIBRARY, or unset it to search the usual places");
        has(&found, Topic::Gpu, Severity::Ok, "the kernel driver's gfx1100; this build has code for it");
    });
}

#[test]
fn no_runtime_in_any_place() {
    let test = "no_runtime_in_any_place";
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_HIP_LIBRARY", "")], || {
        let found = Fake::new("no_runtime_in_any_place").navi31().diagnose();
        let mut count = 0;
        // SAFETY: a place for the answer.
        if unsafe { sys::crk_device_count(Backend::Hip, &mut count) } != Status::NoRuntime {
            return;
        }
        let problem = found.problems().find(|problem| problem.topic == Topic::HipRuntime).expect("no runtime");
        // A machine without ROCm. The sentence of crk_device_open is parted into the finding and the way out.
        assert!(problem.sentence.starts_with("no HIP runtime: no libamdhip64.so of any version in"), "{problem}");
        assert!(problem.remedy.starts_with("install ROCm's HIP runtime, set ROCM_PATH"), "{problem}");
        documented(&problem.remedy);
    });
}

#[test]
fn a_runtime_that_shows_no_gpu() {
    let test = "a_runtime_that_shows_no_gpu";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let fake = Fake::new("a_runtime_that_shows_no_gpu");
        let found = fake.navi31().diagnose();
        has(&found, Topic::HipRuntime, Severity::Ok, "version 6.");
        let version = found.findings.iter().find(|finding| finding.topic == Topic::HipDevices).expect("the count");
        assert_eq!(version.severity, Severity::Problem);
        let sentence = "the kernel driver sees a gfx1100, but the HIP runtime (version 6.4) shows no GPU";
        let remedy = "run rocminfo: it opens the GPU as the runtime does, and says why that fails";
        first_problem(&found, Topic::HipDevices, sentence, remedy);
        has(&found, Topic::Choice, Severity::Note, "CRK_BACKEND_AUTO skips hip: it has no device");
    });
}

#[test]
fn a_variable_hides_all_gpus() {
    let test = "a_variable_hides_all_gpus";
    for name in ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"] {
        alone(test, "gfx1100", 6, &[NO_DEVICE, (name, "-1"), ("CANDLE_ROCM_TEST_NAME", name)], || {
            let name = std::env::var("CANDLE_ROCM_TEST_NAME").expect("a variable");
            let found = Fake::new("a_variable_hides_all_gpus").navi31().diagnose();
            has(&found, Topic::Variable, Severity::Note, &format!("{name}=-1 is set: it chooses the GPUs"));
            let problem = found.problems().next().expect("no GPU");
            let sentence = format!("the HIP runtime shows no GPU, and {name}=-1 chooses what it shows");
            assert_eq!((problem.topic, &problem.sentence), (Topic::HipDevices, &sentence), "{found}");
            assert_eq!(problem.remedy, format!("unset {name}, and try again"));
            if name == "HIP_VISIBLE_DEVICES" {
                documented(&sentence);
            }
        });
        if hip_double::double::is_alone(test) {
            return;
        }
    }
}

#[test]
fn a_variable_hides_one_gpu() {
    let test = "a_variable_hides_one_gpu";
    alone(test, "gfx1100", 6, &[("HIP_VISIBLE_DEVICES", "-1")], || {
        // The double ignores the variable and shows one GPU.
        let found = Fake::new("a_variable_hides_one_gpu").navi31().gpu(2, 110_000, "navi31").diagnose();
        let sentence = "the HIP runtime shows 1 of 2 GPUs, because of HIP_VISIBLE_DEVICES=-1";
        has(&found, Topic::HipDevices, Severity::Note, sentence);
        assert_eq!(found.problems().count(), 0, "{found}");
    });
}

#[test]
fn a_runtime_that_fails() {
    let test = "a_runtime_that_fails";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_FAIL", "hipGetDeviceCount:0=999")], || {
        let found = Fake::new("a_runtime_that_fails").navi31().diagnose();
        let sentence = "hipGetDeviceCount answers 999 (hipErrorUnknown)";
        first_problem(&found, Topic::HipDevices, sentence, "run rocminfo, and check its messages");
        has(&found, Topic::Choice, Severity::Problem, sentence); // AUTO does not hide such a failure
    });
}

#[test]
fn a_runtime_of_a_foreign_version() {
    let test = "a_runtime_of_a_foreign_version";
    if !hip_double::double::is_alone(test) {
        let incomplete = hip_double::without(&["hipFree"]);
        let library = ("CANDLE_ROCM_HIP_LIBRARY", incomplete.to_str().expect("UTF-8"));
        alone(test, "gfx1100", 6, &[library, ("CANDLE_ROCM_TEST_VERSION", "0")], || unreachable!());
        std::fs::remove_file(&incomplete).expect("a file of this test's");
        for version in ["4", "8"] {
            let version = [("HIP_DOUBLE_VERSION", version), ("CANDLE_ROCM_TEST_VERSION", version)];
            alone(test, "gfx1100", 6, &version, || unreachable!());
        }
        return;
    }
    let found = Fake::new(test).navi31().diagnose();
    match &*std::env::var("CANDLE_ROCM_TEST_VERSION").expect("a version") {
        "0" => has(
            &found,
            Topic::HipRuntime,
            Severity::Problem,
            "hipFree is missing, so it is no HIP runtime of 5.2 or later",
        ),
        "4" => has(&found, Topic::HipRuntime, Severity::Problem, "has version 4.4; this library needs 5.2 or later"),
        _ => {
            has(&found, Topic::HipRuntime, Severity::Note, "this library was written for versions up to 7");
            assert_eq!(found.problems().count(), 0, "{found}");
        }
    }
}

// ---- the build

#[test]
fn all_is_well() {
    let test = "all_is_well";
    alone(test, "gfx1100", 6, &[], || {
        let found = Fake::new("all_is_well").navi31().diagnose();
        assert_eq!(found.problems().count(), 0, "{found}");
        has(&found, Topic::Kernels, Severity::Ok, "has code for these AMD GPUs: gfx1100");
        has(&found, Topic::HipDevices, Severity::Ok, "the HIP runtime shows 1 GPU");
        let sentence = "hip:0 is Test double 0, a gfx1100; this build has code for it";
        has(&found, Topic::Gpu, Severity::Ok, sentence);
        has(&found, Topic::Untried, Severity::Note, "gfx1100: not run on hardware yet");
        for library in ["hipBLASLt", "rocBLAS"] {
            has(&found, Topic::Blas, Severity::Note, &format!("{library} is not used: CANDLE_ROCM_BLAS is 0"));
        }
        has(&found, Topic::Variable, Severity::Note, "CANDLE_ROCM_BLAS=0 is set");
        has(&found, Topic::Choice, Severity::Ok, "CRK_BACKEND_AUTO takes hip:0");
        // It prints with the way out below its sentence.
        let text = found.to_string();
        assert_eq!(
            text.lines().count(),
            found.findings.len() + found.findings.iter().filter(|f| !f.remedy.is_empty()).count()
        );
        assert!(text.contains(&format!("ok       gpu           {sentence}\n")), "{text}");
        assert!(text.contains("\n                         -> please send a report"), "{text}");
        // A named device is the user's own choice.
        std::env::set_var("CANDLE_ROCM_DEVICE", "cpu:64");
        let found = Fake::new("all_is_well").navi31().diagnose();
        has(&found, Topic::Choice, Severity::Ok, "CRK_BACKEND_AUTO takes cpu:64, as CANDLE_ROCM_DEVICE says");
        std::env::set_var("CANDLE_ROCM_DEVICE", "hip:0");
        let found = Fake::new("all_is_well").navi31().diagnose();
        has(&found, Topic::Choice, Severity::Ok, "CRK_BACKEND_AUTO takes hip:0, as CANDLE_ROCM_DEVICE says");
        std::env::set_var("CANDLE_ROCM_DEVICE", "hip:3");
        let found = Fake::new("all_is_well").navi31().diagnose();
        has(
            &found,
            Topic::Choice,
            Severity::Problem,
            "CANDLE_ROCM_DEVICE says hip:3; the number of these devices is 1",
        );
        std::env::set_var("CANDLE_ROCM_DEVICE", "tpu");
        let found = Fake::new("all_is_well").navi31().diagnose();
        has(&found, Topic::Choice, Severity::Problem, "CANDLE_ROCM_DEVICE is 'tpu'");
    });
}

#[test]
fn a_blas_library_is_named() {
    let test = "a_blas_library_is_named";
    // The double is a rocBLAS and a hipBLASLt too. The folder of their kernels is empty.
    let library = hip_double::build();
    let kernels = Path::new(SCRATCH).join("diagnose-blas");
    std::fs::create_dir_all(&kernels).expect("a folder");
    let (library, kernels) = (library.to_str().expect("UTF-8"), kernels.to_str().expect("UTF-8"));
    let environment =
        [("CANDLE_ROCM_BLAS", library), ("ROCBLAS_TENSILE_LIBPATH", kernels), ("HIPBLASLT_TENSILE_LIBPATH", kernels)];
    alone(test, "gfx1100", 6, &environment, || {
        let found = Fake::new("a_blas_library_is_named").navi31().diagnose();
        for library in ["hipBLASLt", "rocBLAS"] {
            let finding = found.findings.iter().find(|f| f.topic == Topic::Blas && f.sentence.starts_with(library));
            let sentence = &finding.unwrap_or_else(|| panic!("no {library}:\n{found}")).sentence;
            assert!(sentence.contains("libamdhip64.so, but it has no kernels for gfx1100"), "{sentence}");
        }
    });
}

#[test]
fn a_gpu_that_this_build_has_no_code_for() {
    let test = "a_gpu_that_this_build_has_no_code_for";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_ARCH", "gfx1031")], || {
        let fake = Fake::new("a_gpu_that_this_build_has_no_code_for");
        let found = fake.kfd("").gpu(1, 100_301, "navi22").diagnose();
        let sentence = "hip:0 is Test double 0, a gfx1031; this build has no code for it, only for gfx1100";
        let problem = found.problems().next().expect("no code");
        assert_eq!((problem.topic, &*problem.sentence), (Topic::Gpu, sentence), "{found}");
        assert_eq!(problem.remedy, "build with CANDLE_ROCM_ARCHS=gfx1031");
        has(&found, Topic::KernelGpu, Severity::Ok, "sees a gfx1031 (navi22)");
    });
}

#[test]
fn the_kernel_driver_s_gpu_that_this_build_has_no_code_for() {
    let test = "the_kernel_driver_s_gpu_that_this_build_has_no_code_for";
    alone(test, "gfx1100", 6, &[NO_RUNTIME], || {
        let fake = Fake::new("the_kernel_driver_s_gpu_that_this_build_has_no_code_for");
        let sentence = "the kernel driver's gfx1031; this build has no code for it, only for gfx1100";
        fake.kfd("").gpu(1, 100_301, "navi22").gpu(2, 100_301, "navi22");
        let found = fake.diagnose();
        has(&found, Topic::Gpu, Severity::Problem, sentence);
        assert_eq!(
            found.findings.iter().filter(|f| f.topic == Topic::Gpu).count(),
            1,
            "once per architecture\n{found}"
        );
        std::env::set_var("HSA_OVERRIDE_GFX_VERSION", "11.0.0");
        let found = fake.diagnose();
        has(&found, Topic::Variable, Severity::Note, "HSA_OVERRIDE_GFX_VERSION=11.0.0 is set");
        let sentence = "the kernel driver's gfx1031 counts as gfx1100; this build has code for it";
        has(&found, Topic::Gpu, Severity::Ok, sentence);
    });
}

#[test]
fn containers_are_recognised() {
    let test = "containers_are_recognised";
    alone(test, "gfx1100", 6, &[], || {
        let is_container = |fake: &Fake| fake.diagnose().findings.iter().any(|f| f.topic == Topic::Container);
        let fake = || Fake::new("containers_are_recognised");
        std::env::remove_var("KUBERNETES_SERVICE_HOST");
        assert!(!is_container(fake().file("proc/1/cgroup", "0::/init.scope\n")), "no container");
        assert!(is_container(fake().file("run/.containerenv", "engine=\"podman\"\n")), "Podman");
        for group in ["0::/kubepods.slice/pod1/cri-containerd-1.scope", "5:devices:/docker/0123", "0::/lxc/guest"] {
            assert!(is_container(fake().file("proc/1/cgroup", &format!("{group}\n"))), "{group}");
        }
        std::env::set_var("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        assert!(is_container(&fake()), "Kubernetes");
    });
}

/// In a container a device file may have the right mode, and still cannot be opened.
#[test]
fn a_device_file_that_the_container_refuses() {
    let test = "a_device_file_that_the_container_refuses";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let mut fake = Fake::new("a_device_file_that_the_container_refuses");
        fake.navi31().file(".dockerenv", "");
        fake.machine.is_usable = all_but_kfd;
        fake.machine.is_permitted = permits_each;
        let found = fake.diagnose();
        let problem = found.problems().next().expect("no permission");
        let sentence = "no permission on /dev/kfd, although its mode permits it: the container or the system refuses \
                        the device";
        assert_eq!(problem.sentence, sentence);
        assert!(problem.remedy.starts_with("start the container with --device /dev/kfd"), "{problem}");
    });
}

/// A file is opened to find out whether it is usable. Nothing can be opened through a folder's mode, for one.
#[test]
fn usable_is_what_can_be_opened() {
    let folder = CString::new(env!("CARGO_TARGET_TMPDIR")).expect("no NUL");
    // SAFETY: a path. access() permits a folder, and open() refuses it.
    unsafe {
        assert!(crk_priv_file_permitted(folder.as_ptr()));
        assert!(!crk_priv_file_usable(folder.as_ptr()));
    }
}

/// A path may have a semicolon: it does not part a sentence from its remedy.
#[test]
fn a_semicolon_in_a_path_is_part_of_the_sentence() {
    let test = "a_semicolon_in_a_path_is_part_of_the_sentence";
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_HIP_LIBRARY", "/none/a; b.so")], || {
        let found = Fake::new("a_semicolon_in_a_path_is_part_of_the_sentence").navi31().diagnose();
        let problem = found.problems().next().expect("no runtime");
        let start = "the HIP runtime /none/a; b.so, named by CANDLE_ROCM_HIP_LIBRARY, cannot be used: ";
        assert!(problem.sentence.starts_with(start), "{problem}");
        assert_eq!(problem.remedy, "correct CANDLE_ROCM_HIP_LIBRARY, or unset it to search the usual places");
    });
}

/// Variables may have any bytes. A long value is cut off, perhaps within a character.
#[test]
fn texts_are_utf8() {
    let test = "texts_are_utf8";
    alone(test, "gfx1100", 6, &[], || {
        use std::os::unix::ffi::OsStrExt;
        let value = [b"\xff\xc3\xa9\xe0\x80\x80".as_slice(), "\u{e9}".repeat(300).as_bytes()].concat();
        std::env::set_var("CANDLE_ROCM_BLAS", std::ffi::OsStr::from_bytes(&value));
        let found = Fake::new("texts_are_utf8").navi31().diagnose();
        has(&found, Topic::Variable, Severity::Note, "CANDLE_ROCM_BLAS=?\u{e9}???\u{e9}\u{e9}");
    });
}

/// Code for a generic target covers its members.
#[test]
fn generic_code_covers_a_gpu() {
    let test = "generic_code_covers_a_gpu";
    alone(test, "gfx10-3-generic", 6, &[("HIP_DOUBLE_ARCH", "gfx1031")], || {
        let found = Fake::new("generic_code_covers_a_gpu").kfd("").gpu(1, 100_301, "navi22").diagnose();
        has(&found, Topic::Gpu, Severity::Ok, "a gfx1031; this build has code for it");
        assert_eq!(found.problems().count(), 0, "{found}");
    });
}

#[test]
fn generic_code_needs_a_runtime_that_knows_it() {
    let test = "generic_code_needs_a_runtime_that_knows_it";
    alone(test, "gfx10-3-generic", 5, &[("HIP_DOUBLE_ARCH", "gfx1031")], || {
        let found =
            Fake::new("generic_code_needs_a_runtime_that_knows_it").kfd("").gpu(1, 100_301, "navi22").diagnose();
        let sentence = "this build has code only for its generic target, which needs ROCm 6.4 or later; the HIP \
                        runtime has version 5.2";
        has(&found, Topic::Gpu, Severity::Problem, sentence);
        let problem = found.problems().next().expect("a problem");
        assert_eq!(problem.remedy, "update ROCm, or build with CANDLE_ROCM_ARCHS=gfx1031");
    });
}

#[test]
fn a_build_for_the_cpu_has_notes_only() {
    let test = "a_build_for_the_cpu_has_notes_only";
    alone(test, "gfx1100", 6, &[NO_RUNTIME, ("CANDLE_ROCM_HSACO_DIR", "")], || {
        let fake = Fake::new("a_build_for_the_cpu_has_notes_only");
        let found = fake.diagnose();
        let built_for_gpus = cfg!(any(feature = "rocm", feature = "cuda"));
        assert_eq!(found.problems().next().is_some(), built_for_gpus, "{found}");
        if !built_for_gpus {
            has(&found, Topic::Kernels, Severity::Note, "this build has no code for AMD GPUs");
            has(&found, Topic::Kfd, Severity::Note, "there is no /dev/kfd");
            has(&found, Topic::Choice, Severity::Ok, "CRK_BACKEND_AUTO takes cpu:32");
        }
        // Code that is asked for and not there.
        std::env::set_var("CANDLE_ROCM_HSACO_DIR", "/nowhere");
        has(&fake.diagnose(), Topic::Kernels, Severity::Problem, "CANDLE_ROCM_HSACO_DIR=/nowhere has no code");
    });
}

// ---- this machine

#[test]
fn every_machine_can_be_diagnosed() {
    let found = diagnose();
    has(&found, Topic::Kernels, Severity::Ok, "this build has kernels for the CPU");
    assert!(found.findings.iter().any(|finding| finding.topic == Topic::HipRuntime), "{found}");
    assert_eq!(found.findings.last().expect("findings").topic, Topic::Choice, "{found}");
    // SAFETY: NULL is refused.
    let status = unsafe { sys::crk_diagnose(None, std::ptr::null_mut()) };
    assert_eq!(status, Status::InvalidArgument);
}

/// The page has each key, and the library each key of the page's table.
#[test]
fn every_topic_is_documented() {
    let page = include_str!("../docs/troubleshooting.md");
    let (_, table) = page.split_once("| key | about |").expect("a table of the keys");
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| `")?.split('`').next());
    let topics = (0..).map(|value| sys::crk_topic(value).name()).take_while(|name| *name != "unknown");
    assert_eq!(rows.collect::<Vec<_>>(), topics.collect::<Vec<_>>());
}

#[test]
fn opening_hip_without_a_device_says_why() {
    let test = "opening_hip_without_a_device_says_why";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let error = Device::open(Backend::Hip, 0).expect_err("there is none");
        assert_eq!(error.status(), Status::NoDevice, "{error}");
        // The first problem of the machine that the test runs on.
        let found = diagnose();
        let problem = found.problems().next().expect("no device");
        let start = "crk_device_open: ordinal 0, but this machine has 0 device(s) of this backend: ";
        assert_eq!(error.message(), format!("{start}{}: {}", problem.sentence, problem.remedy));
        let error = Device::open_named("gfx1100").expect_err("there is none");
        assert_eq!(error.status(), Status::NoDevice, "{error}");
        assert!(error.message().contains(&problem.sentence), "{error}");
    });
}

// ---- names of devices

#[test]
fn names_of_devices() {
    let test = "names_of_devices";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_DEVICES", "2")], || {
        let parse = |name: &str| {
            let text = CString::new(name).expect("no NUL");
            let (mut backend, mut ordinal) = (Backend::Auto, -7);
            // SAFETY: a string, and places for the results.
            let status = unsafe { sys::crk_device_from_name(text.as_ptr(), &mut backend, &mut ordinal) };
            // SAFETY: never NULL.
            let sentence = unsafe { CStr::from_ptr(sys::crk_last_error()) }.to_string_lossy().into_owned();
            if status == Status::Ok { Ok((backend, ordinal)) } else { Err((status, sentence)) }
        };
        for (name, backend, ordinal) in [
            ("hip", Backend::Hip, 0),
            ("HIP:0", Backend::Hip, 0),
            ("hip:12", Backend::Hip, 12),
            ("rocm", Backend::Hip, 0),
            ("rocm:0", Backend::Hip, 0),
            ("ROCm:1", Backend::Hip, 1),
            ("cuda", Backend::Cuda, 0),
            ("CUDA:3", Backend::Cuda, 3),
            ("cpu", Backend::Cpu, 0),
            ("cpu:32", Backend::Cpu, 0),
            ("CPU:64", Backend::Cpu, 1),
            ("gfx1100", Backend::Hip, 0),
            ("GFX1100", Backend::Hip, 0),
            ("gfx11-generic", Backend::Hip, 0),
        ] {
            assert_eq!(parse(name), Ok((backend, ordinal)), "{name}");
        }
        for name in [
            "",
            ":",
            ":0",
            "hip:",
            "hip:x",
            "hip:-1",
            "hip:1 ",
            " hip",
            "hi",
            "hipp",
            "rocm0",
            "cpu:0",
            "cpu:48",
            "hip:4294967296",
            "gfx",
            "gfxx",
            "gfx1100:0",
            "gpu:0",
            "auto",
        ] {
            let (status, sentence) = parse(name).expect_err(name);
            assert_eq!(status, Status::InvalidArgument, "{name}: {sentence}");
            let words =
                [&format!("crk_device_from_name: name is '{name}'; understood are") as &str, "rocm:N", "cpu:64"];
            for word in words.into_iter().chain(["hip:N", "cuda:N", "cpu:32", "gfx1100"]) {
                assert!(sentence.contains(word), "'{word}' is not in: {sentence}");
            }
        }
        let (status, sentence) = parse("GFX942").expect_err("another architecture");
        assert_eq!(status, Status::NoDevice, "{sentence}");
        let expected = "name is 'GFX942', but no HIP device has this architecture; there are: gfx1100, gfx1100";
        assert!(sentence.contains(expected), "{sentence}");
        // The variable takes the same names.
        for (name, backend) in [("GFX1100", Backend::Hip), ("rocm:1", Backend::Hip), ("cpu", Backend::Cpu)] {
            std::env::set_var("CANDLE_ROCM_DEVICE", name);
            let info = Device::open_best().expect(name).info().expect("figures");
            assert_eq!(info.backend, backend, "{name}");
        }
    });
}

// ---- programs

#[test]
fn no_program_takes_the_cpu_by_mistake() {
    let test = "no_program_takes_the_cpu_by_mistake";
    alone(test, "gfx1100", 6, &[NO_DEVICE], || {
        let error = program::open(None).expect_err("only the CPU is there, and nobody asked for it");
        let found = diagnose();
        let problem = found.problems().next().expect("no device");
        for part in ["CANDLE_ROCM_DEVICE=cpu:32", &problem.sentence, &problem.remedy] {
            assert!(error.contains(part), "'{part}' is not in: {error}");
        }
        let error = program::open(Some("hip:0")).expect_err("there is none");
        assert!(error.starts_with("CRK_NO_DEVICE: ") && error.contains(&problem.remedy), "{error}");
        let error = program::open(Some("tpu")).expect_err("no such name");
        assert!(error.starts_with("CRK_INVALID_ARGUMENT: ") && error.lines().count() == 1, "{error}");
        // Asked for, it runs.
        let info = program::open(Some("cpu:64")).expect("the CPU").info().expect("figures");
        assert_eq!(info.wave_size, 64);
        assert!(program::describe(&info).contains("the CPU device: the reference for results, no race"));
        assert_eq!(program::remark(&info), None);
        std::env::set_var("CANDLE_ROCM_DEVICE", "cpu:32");
        assert_eq!(program::open(None).expect("the CPU").info().expect("figures").wave_size, 32);
    });
}

#[test]
fn a_program_takes_the_gpu() {
    let test = "a_program_takes_the_gpu";
    alone(test, "gfx1100", 6, &[], || {
        let info = program::open(None).expect("the double").info().expect("figures");
        assert_eq!(info.backend, Backend::Hip);
        assert!(program::describe(&info).starts_with("Test double 0 (gfx1100), through the HIP driver: "));
        let remark = program::remark(&info).expect("no GPU has run this yet");
        assert!(remark.starts_with("gfx1100: not run on hardware yet, please send a report"), "{remark}");
    });
}
