//! The GPU compilers: their paths, their versions, and the architectures that they build for.

use crate::architectures;
use crate::config::{self, Config, Result};
use crate::jobs::Fnv;
use crate::program;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A word of CANDLE_ROCM_ARCHS, and the marks of its architectures in the table's column `built`.
struct Word {
    name: &'static str,
    marks: &'static [&'static str],
}

const GENERIC: Word = Word { name: "generic", marks: &["GENERIC", "BOTH"] };
const COMMON: Word = Word { name: "common", marks: &["COMMON", "BOTH"] };
const ALL: Word = Word { name: "all", marks: &["COMMON", "BOTH", "RARE"] };

/// The names of the architectures with one of these marks.
fn built(by: &[&str]) -> Vec<String> {
    architectures::all().iter().filter(|arch| by.contains(&arch.built)).map(|arch| arch.name.to_owned()).collect()
}

/// The GPU's product name for an architecture; empty where the table has none.
pub fn gpu_of(arch: &str) -> &'static str {
    architectures::find(arch).map_or("", |arch| arch.card)
}

/// The flags on which the code for AMD GPUs depends. The first list is for all compilers and architectures, the second
/// is of `Hip::whole_registers`, the last two are of `Hip::object_version`.
pub const FLAGS: [&[&str]; 4] = [
    &[
        "-std=c++17",
        "-O3",
        "-ffp-contract=off",
        // Subnormal numbers of f32 stay as they are, also on gfx8, where clang flushes them by default.
        "-fno-gpu-flush-denormals-to-zero",
        // Keeps constants inside loops. Outside of them, the constants of a long f64 function need more scalar
        // registers than a wave has, and spill.
        "-mllvm",
        "-disable-machine-licm",
    ],
    &["-Xclang", "-target-feature", "-Xclang", "-real-true16"],
    &["-mcode-object-version=5"],
    &["-mcode-object-version=6"],
];

/// A HIP compiler for AMD GPUs: hipcc or a clang.
pub struct Hip {
    pub path: PathBuf,
    /// The compiler's path, its version text and its device libraries, which determine its output.
    pub identity: String,
    flags: Vec<String>,
    /// Whether the compiler writes code object version 6, unless it is told otherwise.
    writes_version_6: bool,
}

impl Hip {
    pub fn find(config: &Config) -> Result<Hip> {
        let path = find_hip(config)?;
        // What the last build has left.
        let _ = fs::remove_dir_all(config.out_dir.join(TEMPORARY));
        let mut ways = vec![other("HIPCC", config.hipcc.is_some())];
        for (name, folder) in folders(config) {
            let folder = folder.to_string_lossy();
            ways.push(format!("correct {name}={folder}, or unset it: hipcc looks for its clang there"));
        }
        let mut identity = identity(&path, &ways)?;
        // A new version in the same place must trigger a new build.
        println!("cargo::rerun-if-changed={}", path.display());
        let mut flags = config.hipcc_flags.clone();
        let is_named =
            |flag: &String| flag.starts_with("--rocm-device-lib-path") || flag.starts_with("--hip-device-lib-path");
        if config.hip_device_lib_path.is_none() && !flags.iter().any(is_named) {
            flags.extend(device_libraries(&path).map(|folder| format!("--rocm-device-lib-path={}", folder.display())));
        }
        // Without these libraries' folder the compiler looks for them by the two variables.
        write!(identity, "{:?} {:?}", config.rocm_path, config.hip_path).unwrap();
        let named = flags.iter().filter(|flag| is_named(flag)).filter_map(|flag| flag.split_once('='));
        let named = named.map(|(_, folder)| Path::new(folder)).chain(config.hip_device_lib_path.iter().map(Path::new));
        let linked = linked_libraries(config, &path, &flags);
        let folders: BTreeSet<_> = named.chain(linked.iter().filter_map(|library| library.parent())).collect();
        for folder in folders {
            write!(identity, " {:x}", hash_of_libraries(folder)).unwrap();
        }
        let writes_version_6 = linked.iter().any(|library| library.ends_with("oclc_abi_version_600.bc"));
        Ok(Hip { path, identity, flags, writes_version_6 })
    }

    /// The compiler, to run in any folder: hipcc reads these variables, in which the user may have a relative path.
    fn start(&self, config: &Config) -> Command {
        let mut command = start(config, &self.path);
        command.envs(folders(config));
        command
    }

    /// Compiles one source to the ELF of one architecture. The architecture is always named: without a name hipcc asks
    /// the machine for its GPU, and on a machine without one it builds for gfx803 and exits with 0.
    ///
    /// The kernels use no HIP headers (-nogpuinc), so they do not depend on the headers' version.
    pub fn command(&self, config: &Config, arch: &str, source: &Path, output: &Path) -> Command {
        let mut command = self.start(config);
        command
            .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc"])
            .arg(format!("--offload-arch={arch}"))
            .args(FLAGS[0])
            .args(self.whole_registers(arch))
            .args(self.object_version(arch))
            // Kernels read a launch's struct in its place, and not through the parameter (CRK_ND_ARGUMENT).
            .args(["-Wall", "-Wextra", "-Wno-unused-parameter"])
            .args(config.strict.then_some("-Werror"))
            .args(&self.flags)
            .arg("-I")
            .arg(config.root.join("kernels"))
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(output);
        command
    }

    /// The command for a program's own source, to which the source, the output and further flags are added.
    #[allow(dead_code)] // candle-rocm-build uses it, and the build script does not
    pub fn program_command(&self, config: &Config, arch: &str, cuda: bool) -> Command {
        let mut command = self.start(config);
        command
            .args(program::flags(&config.root.join("kernels"), arch, cuda))
            .args(self.whole_registers(arch))
            .args(self.object_version(arch))
            .args(&self.flags);
        command
    }

    /// Turns "real true16" off on RDNA 3 and 4. With it LLVM keeps 16-bit values in halves of registers and sometimes
    /// loses one: clang 21 turned the pair (c1, s1) of rope_f16 into (c0, s1). One register per value takes as many
    /// instructions.
    fn whole_registers(&self, arch: &str) -> &'static [&'static str] {
        let version =
            self.identity.split_once("clang version ").and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
        // Compilers before 18 do not know the feature.
        let knows = version.is_some_and(|version: u32| version >= 18);
        let halves = arch.starts_with("gfx11") || arch.starts_with("gfx12");
        if knows && halves { FLAGS[1] } else { &[] }
    }

    /// Asks for code objects of version 5, which older runtimes load too, but for generic targets: they need version 6,
    /// which clang 19 does not write by itself. The instructions are the same.
    fn object_version(&self, arch: &str) -> &'static [&'static str] {
        match (is_generic(arch), self.writes_version_6) {
            (false, true) => FLAGS[2],
            (true, false) => FLAGS[3],
            _ => &[],
        }
    }

    /// The architectures to build for. Those that the compiler does not know are left out, or an error where the user
    /// named them.
    pub fn architectures(&self, config: &Config) -> Result<Architectures> {
        let Wanted { mut names, required, mut notes } = wanted(config, Some(&self.path))?;
        let mut refused = self.probe(config, &names)?;
        let errors: Vec<_> = refused.iter().filter(|(arch, _)| required.contains(arch)).collect();
        if !errors.is_empty() {
            let others: Vec<_> = architectures::all().iter().map(|arch| arch.name.to_owned()).collect();
            let unknown = self.probe(config, &others)?;
            let known: Vec<_> = others.into_iter().filter(|arch| !unknown.iter().any(|(a, _)| a == arch)).collect();
            let reasons: Vec<_> = errors.iter().map(|(arch, why)| format!("  {arch}: {why}")).collect();
            return Err(format!(
                "{} cannot compile for these architectures of CANDLE_ROCM_ARCHS:\n{}\n\
                 It can compile for: {}\n\
                 Ways out: remove these architectures from CANDLE_ROCM_ARCHS; name a newer compiler with HIPCC or \
                 ROCM_PATH; or, where a device library is missing, install the device libraries of this compiler.",
                self.path.display(),
                reasons.join("\n"),
                if known.is_empty() { "no architecture that this crate knows of".to_owned() } else { known.join(", ") }
            ));
        }
        // The common members of a generic target take its place.
        let members = replace_generics(&mut names, &refused);
        refused.extend(self.probe(config, &members)?);
        names.retain(|arch| !refused.iter().any(|(name, _)| name == arch));
        let Some((first, reason)) = refused.first() else { return Ok(Architectures { names, notes }) };
        if names.is_empty() {
            return Err(format!(
                "{} cannot compile for any of the architectures of this build: {}. Its message for {first} is:\n\
                 {reason}\n\
                 Ways out: install its device libraries; name a newer compiler with HIPCC or ROCM_PATH; name other \
                 architectures in CANDLE_ROCM_ARCHS (`generic` or `common`: the usual ones); or set \
                 CANDLE_ROCM_NO_KERNELS=1 to build without code objects.",
                self.path.display(),
                list_names(&refused)
            ));
        }
        notes.push(format!(
            "{} cannot compile for {}, so this build does not run on {} ({first}: {reason}); name a newer compiler \
             with HIPCC or ROCM_PATH, or set CANDLE_ROCM_ARCHS={} to do without them",
            self.path.display(),
            list_names(&refused),
            left_out(&refused, &names),
            names.join(",")
        ));
        Ok(Architectures { names, notes })
    }

    /// Compiles a kernel that needs the device library for each architecture. Returns the architectures that fail, each
    /// with the compiler's reason. OUT_DIR remembers successes. A failure is tried again at the next build.
    fn probe(&self, config: &Config, archs: &[String]) -> Result<Vec<(String, String)>> {
        let folder = config.out("probe")?;
        let source = folder.join("probe.hip");
        config::write(
            &source,
            "extern \"C\" __attribute__((device)) float __ocml_exp_f32(float);\n\
             extern \"C\" __attribute__((global)) void probe(float *x) { *x = __ocml_exp_f32(*x); }\n",
        )?;
        let next = std::sync::atomic::AtomicUsize::new(0);
        let results = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..config.jobs.min(archs.len()) {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(arch) = archs.get(index) else { return };
                        let result = self.probe_one(config, arch, &source, &folder);
                        results.lock().unwrap().push((index, result));
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap();
        results.sort_by_key(|(index, _)| *index);
        let mut refused = Vec::new();
        for (index, result) in results {
            if let Some(reason) = result? {
                refused.push((archs[index].clone(), reason));
            }
        }
        Ok(refused)
    }

    /// `None` where the compiler can compile for the architecture, else the reason.
    fn probe_one(&self, config: &Config, arch: &str, source: &Path, folder: &Path) -> Result<Option<String>> {
        let stem = file_stem(arch);
        let output = folder.join(format!("{stem}.elf"));
        let mut command = self.command(config, arch, source, &output);
        let mut key = Fnv::new();
        key.text(&self.identity);
        command.get_args().for_each(|argument| key.text(&argument.to_string_lossy()));
        let key = format!("{:016x}", key.0);

        let kept = folder.join(format!("{stem}.key"));
        if output.exists() && fs::read_to_string(&kept).is_ok_and(|old| old == key) {
            return Ok(None);
        }
        let _ = fs::remove_file(&output);
        let result = command.output().map_err(|e| format!("{}: {e}", self.path.display()))?;
        if result.status.success() && output.exists() {
            config::write(&kept, key)?;
            return Ok(None);
        }
        let messages = String::from_utf8_lossy(&result.stderr).into_owned();
        if let Some(sentence) = config::full_disk(&messages) {
            return Err(format!("{} for {arch}: {sentence}", self.path.display()));
        }
        if let Some(line) = refused_by_shell(&output, &messages) {
            return Err(format!(
                "{} for {arch}: {line}; this hipcc passes its arguments through a shell, which changes the quotation \
                 marks and $ in {}; name a target folder without them in CARGO_TARGET_DIR",
                self.path.display(),
                folder.display()
            ));
        }
        let reason = messages.lines().find(|line| line.contains("error")).or(messages.lines().next());
        Ok(Some(reason.unwrap_or("the compiler failed without a message").trim().to_owned()))
    }
}

/// The line that tells that a hipcc's shell did not take the path of its output: the shell refuses one quotation mark,
/// and the linker gets the path without two of them or without `$name`.
fn refused_by_shell<'a>(output: &Path, messages: &'a str) -> Option<&'a str> {
    let is_changed = output.to_string_lossy().contains(['"', '$', '`']);
    let tells = |line: &&str| line.contains("cannot open output file") || line.starts_with("sh: ");
    messages.lines().find(tells).filter(|_| is_changed)
}

/// The architectures of a build, and what its user should know of the choice.
#[derive(Debug)]
pub struct Architectures {
    pub names: Vec<String>,
    pub notes: Vec<String>,
}

/// The architectures that the user wants, each once.
struct Wanted {
    names: Vec<String>,
    /// Those that must not be left out.
    required: Vec<String>,
    notes: Vec<String>,
}

/// Puts the common members of each refused generic target in its place. Returns those that are new.
fn replace_generics(names: &mut Vec<String>, refused: &[(String, String)]) -> Vec<String> {
    let mut added = Vec::new();
    let all = architectures::all();
    for (generic, _) in refused.iter().filter(|(arch, _)| is_generic(arch)) {
        let members = all.iter().filter(|arch| arch.generic == generic && COMMON.marks.contains(&arch.built));
        let members: Vec<_> = members.map(|arch| arch.name.to_owned()).filter(|name| !names.contains(name)).collect();
        let at = names.iter().position(|name| name == generic).unwrap_or(names.len());
        names.splice(at..(at + 1).min(names.len()), members.clone());
        added.extend(members);
    }
    added
}

/// The GPUs of refused architectures that a build does not run on: of a generic target those that have no code of their
/// own.
fn left_out(refused: &[(String, String)], built: &[String]) -> String {
    let is_refused = |name: &str| refused.iter().any(|(arch, _)| arch == name);
    let all = architectures::all();
    let lost = all.iter().filter(|arch| {
        let is_known = is_refused(arch.name) || !arch.card.is_empty();
        (is_refused(arch.name) || is_refused(arch.generic))
            && is_known
            && !is_generic(arch.name)
            && !built.iter().any(|name| name == arch.name)
    });
    let lost: Vec<_> = lost.map(|arch| with_card(arch.name)).collect();
    if lost.is_empty() { "these GPUs".to_owned() } else { lost.join(", ") }
}

/// An architecture and the GPU's product name: gfx1100 (Radeon RX 7900).
pub fn with_card(arch: &str) -> String {
    format!("{arch} ({})", gpu_of(arch)).replace(" ()", "")
}

/// Reads CANDLE_ROCM_ARCHS. Where it is not set, the architectures are those of this machine's GPUs, else those of
/// `generic`. The tool amdgpu-arch is looked for beside the compiler.
fn wanted(config: &Config, compiler: Option<&Path>) -> Result<Wanted> {
    let (mut names, mut required, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    match config.rocm_archs.as_deref() {
        None => {
            names = own_gpus(config);
            if names.is_empty() {
                names = built(GENERIC.marks);
            } else {
                notes.push(format!(
                    "CANDLE_ROCM_ARCHS is not set: this build is for the GPUs of this machine, {}; set it to `generic` \
                     to build for the usual ones, or to a list such as gfx1100,gfx1201",
                    names.iter().map(|name| with_card(name)).collect::<Vec<_>>().join(", ")
                ));
            }
        }
        Some(list) => {
            for name in list.split([',', ';', ' ']).map(str::trim).filter(|name| !name.is_empty()) {
                if let Some(word) = [GENERIC, COMMON, ALL].into_iter().find(|word| word.name == name) {
                    names.extend(built(word.marks));
                    continue;
                }
                match name {
                    "native" => required.extend(native(config, compiler)?),
                    name if is_architecture(name) => required.push(name.to_owned()),
                    name => {
                        return Err(format!(
                            "CANDLE_ROCM_ARCHS={list}: {name:?} is not an architecture\n\
                             Set it to `generic`, `common`, `all`, or a comma-separated list of names such as gfx1100 \
                             or gfx90a:xnack-. `native` in the list stands for the GPUs of this machine."
                        ));
                    }
                }
                names.extend(required.clone());
            }
        }
    }
    let mut seen = Vec::new();
    names.retain(|arch| !seen.contains(arch) && (seen.push(arch.clone()), true).1);
    if names.is_empty() {
        return Err("CANDLE_ROCM_ARCHS names no architecture; set it to `generic`, or to a list such as gfx1100".into());
    }
    Ok(Wanted { names, required, notes })
}

/// The architectures to take from a file that has these. A generic one replaces its members.
pub fn prebuilt_architectures(config: &Config, file: &Path, archs: &[String]) -> Result<Vec<String>> {
    if config.rocm_archs.is_none() {
        return Ok(archs.to_vec());
    }
    let Wanted { names, required, .. } = wanted(config, None)?;
    let mut taken = Vec::new();
    for arch in names {
        let generic = architectures::find(&arch).map_or("", |arch| arch.generic);
        match archs.iter().find(|name| **name == arch).or(archs.iter().find(|name| *name == generic)) {
            Some(found) if taken.contains(found) => {}
            Some(found) => taken.push(found.clone()),
            None if !required.contains(&arch) => {}
            None => {
                return Err(format!(
                    "CANDLE_ROCM_CODE_OBJECTS={}: expected code for {arch}, which CANDLE_ROCM_ARCHS names, but found \
                     code for {} only; remove {arch} from CANDLE_ROCM_ARCHS, pack a file with it, or unset \
                     CANDLE_ROCM_CODE_OBJECTS to compile with hipcc",
                    file.display(),
                    archs.join(", ")
                ));
            }
        }
    }
    if taken.is_empty() {
        return Err(format!(
            "CANDLE_ROCM_CODE_OBJECTS={}: expected code for an architecture of CANDLE_ROCM_ARCHS={}, but found code \
             for {} only; unset CANDLE_ROCM_ARCHS to take all of the file",
            file.display(),
            config.rocm_archs.as_deref().unwrap_or_default(),
            archs.join(", ")
        ));
    }
    Ok(taken)
}

/// The architecture's name as a part of a file name.
pub fn file_stem(arch: &str) -> String {
    arch.replace(':', "_")
}

/// Whether an architecture stands for several.
fn is_generic(arch: &str) -> bool {
    arch.split(':').next().is_some_and(|plain| plain.ends_with("-generic"))
}

/// Whether a name has the form of gfx1100, gfx90a:xnack- or gfx11-generic.
fn is_architecture(name: &str) -> bool {
    let (plain, features) = name.split_once(':').unwrap_or((name, ""));
    plain.strip_prefix("gfx").is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    }) && features
        .split(':')
        .all(|feature| feature.is_empty() || ["sramecc+", "sramecc-", "xnack+", "xnack-"].contains(&feature))
}

/// The architectures of this machine's GPUs, as Linux lists them in /sys, which AMD's own tools read too; and the one
/// that HSA_OVERRIDE_GFX_VERSION makes the runtime report.
fn own_gpus(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    for node in fs::read_dir(&config.topology).into_iter().flatten().flatten() {
        let properties = fs::read_to_string(node.path().join("properties")).unwrap_or_default();
        let version = properties.lines().find_map(|line| line.strip_prefix("gfx_target_version "));
        // 90010 is gfx90a, 110000 gfx1100; the CPU has 0.
        if let Some(version) = version.and_then(|v| v.trim().parse::<u32>().ok()).filter(|v| *v > 0) {
            found.push((version / 10_000, version / 100 % 100, version % 100));
        }
    }
    if let Some(version) = config.gfx_override.as_ref().filter(|_| !found.is_empty()) {
        let numbers: Vec<_> = version.split('.').map_while(|number| number.trim().parse().ok()).collect();
        if let [major, minor, step] = numbers[..] {
            found.push((major, minor, step));
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(major, minor, step)| format!("gfx{major}{minor:x}{step:x}")).collect()
}

/// The architectures that `native` stands for. Where Linux lists no GPU (Windows, WSL), the tool amdgpu-arch beside the
/// compiler may.
fn native(config: &Config, compiler: Option<&Path>) -> Result<Vec<String>> {
    let mut found = own_gpus(config);
    let folders = compiler.into_iter().flat_map(|compiler| compiler.ancestors().skip(1).take(2));
    for folder in folders {
        for tool in ["amdgpu-arch", "llvm/bin/amdgpu-arch", "lib/llvm/bin/amdgpu-arch"] {
            if !found.is_empty() {
                break;
            }
            if let Ok(output) = Command::new(executable(&folder.join(tool))).output() {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                found.extend(text.split_whitespace().filter(|name| is_architecture(name)).map(str::to_owned));
            }
        }
    }
    if found.is_empty() {
        return Err(format!(
            "CANDLE_ROCM_ARCHS=native, but no AMD GPU was found on this machine: {} lists none, and no \
             amdgpu-arch beside {} names one.\nName the architectures instead, such as CANDLE_ROCM_ARCHS=gfx1100.",
            config.topology.display(),
            compiler.map_or("a compiler".into(), |compiler| compiler.display().to_string())
        ));
    }
    Ok(found)
}

/// The folders of ROCm that the user named, with their variables.
fn folders(config: &Config) -> Vec<(&'static str, &OsString)> {
    let variables = [("ROCM_PATH", &config.rocm_path), ("HIP_PATH", &config.hip_path)];
    variables.into_iter().filter_map(|(name, folder)| Some((name, folder.as_ref()?))).collect()
}

fn find_hip(config: &Config) -> Result<PathBuf> {
    if let Some(hipcc) = &config.hipcc {
        return named(config, "HIPCC", hipcc);
    }
    const PLACES: &[&str] =
        &["bin/hipcc", "bin/amdclang++", "lib/llvm/bin/amdclang++", "lib/llvm/bin/clang++", "llvm/bin/clang++"];
    let mut looked = vec!["HIPCC: not set".to_owned()];
    let mut folders = Vec::new();
    for (name, value) in [("ROCM_PATH", &config.rocm_path), ("HIP_PATH", &config.hip_path)] {
        match value {
            Some(value) => {
                let roots = with_cores(Path::new(value));
                looked.push(format!("{name}: {}: no {}", list(&roots), PLACES.join(", no ")));
                folders.extend(roots);
            }
            None => looked.push(format!("{name}: not set")),
        }
    }
    let roots = versions(&config.installed, "rocm");
    let installed: Vec<_> = roots.iter().flat_map(|root| with_cores(root)).collect();
    looked.push(match installed.is_empty() {
        true => format!("{}/rocm*: not found", config.installed.display()),
        false => format!("{}: no {}", list(&installed), PLACES.join(", no ")),
    });
    folders.extend(installed);
    for folder in folders {
        for place in PLACES {
            let path = executable(&folder.join(place));
            if path.is_file() {
                return Ok(path);
            }
        }
    }
    for name in ["hipcc", "amdclang++"] {
        if let Some(path) = in_path(config, name) {
            return Ok(path);
        }
    }
    looked.push("PATH: no hipcc, no amdclang++".to_owned());
    Err(format!(
        "the feature `rocm` compiles kernels for AMD GPUs, but neither hipcc nor a ROCm clang was found\n\
         Looked for:\n  {}\n\
         Ways out:\n  \
           install hipcc (ROCm and most distributions have it; tools/install-amd-toolchain installs it on Debian),\n  \
           or name it: HIPCC=/path/to/hipcc or ROCM_PATH=/opt/rocm-6.4.0,\n  \
           or take code objects from a file of tools/pack-code-objects: CANDLE_ROCM_CODE_OBJECTS=/path/to/file,\n  \
           or build without code objects: CANDLE_ROCM_NO_KERNELS=1, or without the feature `rocm`",
        looked.join("\n  ")
    ))
}

/// A folder of ROCm, and the installations in it: since ROCm 7.12 the packages install into `/opt/rocm/core-7.12`.
fn with_cores(root: &Path) -> Vec<PathBuf> {
    let mut roots = vec![root.to_owned()];
    roots.extend(versions(root, "core"));
    roots
}

/// The folder of AMD's device libraries in a compiler's installation; clang itself searches only some of these places.
/// `None` for other compilers, such as a distribution's, which find their own.
fn device_libraries(compiler: &Path) -> Option<PathBuf> {
    let prefix = compiler.parent()?.parent()?;
    let is_llvm = prefix.file_name().is_some_and(|name| name == "llvm");
    let llvm = if is_llvm { prefix.to_owned() } else { prefix.join("lib/llvm") };
    let root = match is_llvm {
        true => prefix.ancestors().skip(1).find(|folder| !folder.ends_with("lib"))?,
        false => prefix,
    };
    let mut folders = vec![root.join("amdgcn/bitcode"), llvm.join("amdgcn/bitcode")];
    folders.extend(versions(&llvm.join("lib/clang"), "").iter().map(|clang| clang.join("lib/amdgcn/bitcode")));
    folders.into_iter().find(|folder| folder.join("ocml.bc").is_file())
}

/// A folder in OUT_DIR.
const TEMPORARY: &str = "temporary";

/// The compiler, with its temporary files in OUT_DIR (not on Windows): clang leaves an empty folder for each source.
fn start(config: &Config, compiler: &Path) -> Command {
    let mut command = Command::new(compiler);
    if let Ok(folder) = config.out(TEMPORARY) {
        command.env("TMPDIR", folder);
    }
    command
}

/// The device libraries that a compiler links, as it says itself: `-###` prints the commands that it would run. The
/// first architecture that it knows stands for all, because their libraries are in one folder.
fn linked_libraries(config: &Config, compiler: &Path, flags: &[String]) -> Vec<PathBuf> {
    for arch in built(COMMON.marks) {
        let mut command = start(config, compiler);
        command.args(["-###", "-x", "hip", "--cuda-device-only", "-nogpuinc", "-c", "-", "-o"]);
        // Nothing is written there, except by a script in a compiler's place.
        command.arg(std::env::temp_dir().join("candle-rocm-none"));
        let Ok(output) = command.arg(format!("--offload-arch={arch}")).args(flags).output() else { continue };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut words = text.split('"').filter(|word| !word.trim().is_empty());
        let mut found = Vec::new();
        while words.by_ref().any(|word| word == "-mlink-builtin-bitcode") {
            found.extend(words.next().map(PathBuf::from));
        }
        // Some compilers exit with 0 after an error.
        if !found.is_empty() || (output.status.success() && !text.contains("error:")) {
            return found;
        }
    }
    Vec::new()
}

/// A hash of a folder's device libraries, which the compiler links into each code object.
fn hash_of_libraries(folder: &Path) -> u128 {
    let mut hash = Fnv::new();
    for library in config::files(folder, &["bc"], false).into_iter().flatten() {
        hash.text(&library.to_string_lossy());
        hash.bytes(&fs::read(library).unwrap_or_default());
    }
    hash.0
}

/// The CUDA compiler, nvcc.
pub struct Cuda {
    pub path: PathBuf,
    pub identity: String,
}

impl Cuda {
    pub fn find(config: &Config) -> Result<Cuda> {
        let path = find_nvcc(config)?;
        println!("cargo::rerun-if-changed={}", path.display());
        let identity = identity(&path, &[other("NVCC", config.nvcc.is_some())])?;
        Ok(Cuda { identity: format!("{identity} {:?}", config.nvcc_ccbin), path })
    }

    /// Compiles one source to a fatbin of all architectures, with PTX of the highest for later GPUs. nvcc must not
    /// contract a product and a sum, because the kernels write fma where they mean it.
    pub fn command(&self, config: &Config, archs: &[String], source: &Path, output: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["-x", "cu", "-fatbin", "-std=c++17", "-O3", "-fmad=false"]);
        // 177, "declared but never referenced": some instances of a template do not use every member.
        command.args(["-diag-suppress", "177"]);
        command.args(config.strict.then_some(["-Werror", "all-warnings"]).into_iter().flatten());
        for arch in archs {
            command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
        }
        if let Some(arch) = archs.last() {
            command.arg(format!("-gencode=arch=compute_{arch},code=compute_{arch}"));
        }
        command.arg("-I").arg(config.root.join("kernels")).arg(source).arg("-o").arg(output);
        command
    }

    /// Preprocesses one source.
    pub fn preprocess(&self, source: &Path, output: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["-x", "cu", "-std=c++17", "-E", "-Xcompiler", "-dD"]).arg(source).arg("-o").arg(output);
        command
    }

    /// The numbers of the architectures, such as 80 and 90, lowest first.
    pub fn architectures(&self, config: &Config) -> Result<Vec<String>> {
        let list = config.cuda_archs.as_deref().unwrap_or("80,90");
        let mut archs = Vec::new();
        for name in list.split([',', ';', ' ']).map(str::trim).filter(|name| !name.is_empty()) {
            let arch = name.trim_start_matches("sm_");
            let number: String = arch.chars().take_while(char::is_ascii_digit).collect();
            let Ok(number) = number.parse::<u32>() else {
                return Err(format!(
                    "CANDLE_CUDA_ARCHS={list}: {name:?} is not an architecture; set it to a list such as 80,90 or \
                     sm_80,sm_90a"
                ));
            };
            archs.push((number, arch.to_owned()));
        }
        archs.sort();
        archs.dedup();
        Ok(archs.into_iter().map(|(_, arch)| arch).collect())
    }
}

fn find_nvcc(config: &Config) -> Result<PathBuf> {
    if let Some(nvcc) = &config.nvcc {
        return named(config, "NVCC", nvcc);
    }
    let mut looked = vec!["NVCC: not set".to_owned()];
    for (name, value) in [("CUDA_HOME", &config.cuda_home), ("CUDA_PATH", &config.cuda_path)] {
        let Some(value) = value else {
            looked.push(format!("{name}: not set"));
            continue;
        };
        let path = executable(&Path::new(value).join("bin/nvcc"));
        if path.is_file() {
            return Ok(path);
        }
        looked.push(format!("{name}={}: no bin/nvcc", value.to_string_lossy()));
    }
    if let Some(path) = in_path(config, "nvcc") {
        return Ok(path);
    }
    looked.push("PATH: no nvcc".to_owned());
    let installed = versions(Path::new("/usr/local"), "cuda");
    for folder in &installed {
        let path = executable(&folder.join("bin/nvcc"));
        if path.is_file() {
            return Ok(path);
        }
    }
    looked.push(match installed.is_empty() {
        true => "/usr/local/cuda*: not found".to_owned(),
        false => format!("{}: no bin/nvcc", list(&installed)),
    });
    Err(format!(
        "the feature `cuda` compiles kernels for NVIDIA GPUs, but nvcc was not found\n\
         Looked for:\n  {}\n\
         Ways out:\n  \
           install the CUDA toolkit (tools/install-cuda-compiler unpacks the compiler alone),\n  \
           or name it: NVCC=/path/to/nvcc or CUDA_HOME=/usr/local/cuda,\n  \
           or build without code objects: CANDLE_ROCM_NO_KERNELS=1, or without the feature `cuda`",
        looked.join("\n  ")
    ))
}

/// The compiler that a variable names: a path, or a name in PATH. No other compiler replaces it.
fn named(config: &Config, variable: &str, value: &OsStr) -> Result<PathBuf> {
    let path = Path::new(value);
    let found = if path.components().count() > 1 {
        Some(executable(path)).filter(|path| path.is_file())
    } else {
        in_path(config, &value.to_string_lossy())
    };
    found.ok_or_else(|| {
        format!("{variable}={}: there is no such program\nWays out: {}", value.to_string_lossy(), other(variable, true))
    })
}

/// The way to another compiler by this variable.
fn other(variable: &str, is_set: bool) -> String {
    match is_set {
        true => format!("correct {variable}, or unset it to search the usual places"),
        false => format!("name another compiler in {variable}"),
    }
}

pub fn in_path(config: &Config, name: &str) -> Option<PathBuf> {
    let path = config.path.as_ref()?;
    std::env::split_paths(path).map(|folder| executable(&folder.join(name))).find(|path| path.is_file())
}

/// The file of a program: on Windows with its extension.
fn executable(path: &Path) -> PathBuf {
    if cfg!(windows) && path.extension().is_none() {
        for extension in ["exe", "bat", "cmd"] {
            let path = path.with_extension(extension);
            if path.is_file() {
                return path;
            }
        }
    }
    path.to_owned()
}

/// `folder/name` and all `folder/name-VERSION`: the plain one first, then the latest version first.
fn versions(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found: Vec<(Vec<u32>, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file_name = entry.file_name().to_string_lossy().into_owned();
        let Some(version) = file_name.strip_prefix(name) else { continue };
        let digits = version.strip_prefix('-').unwrap_or(version);
        if version.is_empty() {
            found.push((vec![u32::MAX], entry.path()));
        } else if digits.starts_with(|c: char| c.is_ascii_digit()) {
            let numbers = digits.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
            found.push((numbers, entry.path()));
        }
    }
    found.sort();
    found.reverse();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The names in a list of architectures with reasons.
fn list_names(refused: &[(String, String)]) -> String {
    refused.iter().map(|(arch, _)| arch.as_str()).collect::<Vec<_>>().join(", ")
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The compiler's path and its version text. `ways` are the ways out where it does not run.
fn identity(path: &Path, ways: &[String]) -> Result<String> {
    let output = Command::new(path).arg("--version").output();
    let (path, ways) = (path.display(), ways.join("; or "));
    let output = output.map_err(|error| format!("{path} cannot be run: {error}\nWays out: {ways}"))?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{path} --version fails ({}):\n{}\nWays out: {ways}", output.status, messages.trim_end()));
    }
    Ok(format!("{path}\n{}", String::from_utf8_lossy(&output.stdout)))
}
