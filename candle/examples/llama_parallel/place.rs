//! Which rank this process is: the variables of torchrun, mpirun and srun.
use anyhow::{Context, Result, bail};
use std::fmt::Debug;
use std::str::FromStr;

/// The port of rank 0 if `MASTER_PORT` is not set.
pub const PORT: u16 = 29500;

/// One rank, and where rank 0 listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub rank: usize,
    pub size: usize,
    /// The number among the ranks of this host.
    pub local: usize,
    pub host: String,
    pub port: u16,
}

/// The variables of one launcher.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    local: &'static str,
    /// A variable with this value says that all ranks are on one host: the number of ranks here, or of hosts.
    ranks_here: &'static str,
    hosts: &'static str,
}

/// The first one whose variables are there counts: mpirun and torchrun may themselves be started by srun.
const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        name: "torchrun",
        rank: "RANK",
        size: "WORLD_SIZE",
        local: "LOCAL_RANK",
        ranks_here: "LOCAL_WORLD_SIZE",
        hosts: "",
    },
    Launcher {
        name: "mpirun",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local: "OMPI_COMM_WORLD_LOCAL_RANK",
        ranks_here: "OMPI_COMM_WORLD_LOCAL_SIZE",
        hosts: "",
    },
    Launcher {
        name: "srun",
        rank: "SLURM_PROCID",
        // SLURM_NTASKS may be that of the allocation: in the shell that salloc starts as a step of one task.
        size: "SLURM_STEP_NUM_TASKS",
        local: "SLURM_LOCALID",
        ranks_here: "",
        hosts: "SLURM_STEP_NUM_NODES",
    },
];

/// The environment. A variable that is empty counts as unset.
struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => bail!("{name} is {text:?}, which is no number that it may be"),
        }
    }
}

impl Place {
    /// The rank that the environment names; None if no launcher started this process. `ranks` is the value of
    /// `--ranks`.
    pub fn read(variable: impl Fn(&str) -> Option<String>, ranks: Option<usize>) -> Result<Option<Place>> {
        let variables = Variables(variable);
        let is_there = |launcher: &&Launcher| {
            let is_set = |name: &&str| variables.get(name).is_some();
            // A batch script has Slurm's variables too, but is no step of srun.
            let is_step = launcher.name != "srun" || ["SLURM_STEP_ID", "SLURM_STEPID"].iter().any(is_set);
            is_step && [launcher.rank, launcher.size].iter().any(is_set)
        };
        let Some(launcher) = LAUNCHERS.iter().find(is_there) else { return Ok(None) };
        let number = |name: &str| -> Result<usize> {
            let set: Vec<_> = [launcher.rank, launcher.size, launcher.local]
                .into_iter()
                .filter(|name| variables.get(name).is_some())
                .collect();
            variables.number(name)?.with_context(|| format!("{name} is not set, beside {}", set.join(" and ")))
        };
        let (rank, size, local) = (number(launcher.rank)?, number(launcher.size)?, number(launcher.local)?);
        // A step of one task, which starts the ranks itself.
        if launcher.name == "srun" && size == 1 && ranks.is_some_and(|ranks| ranks > 1) {
            return Ok(None);
        }
        if rank >= size {
            bail!("{} is {rank} and {} is {size}: a rank is below their number", launcher.rank, launcher.size);
        }
        if local > rank {
            bail!("{} is {local} and {} is {rank}: it is at most that", launcher.local, launcher.rank);
        }
        if let Some(ranks) = ranks.filter(|ranks| *ranks != size) {
            bail!("--ranks is {ranks}, and {} is {size}; leave --ranks out under {}", launcher.size, launcher.name);
        }
        let mut port = variables.number("MASTER_PORT")?.unwrap_or(PORT);
        // torchrun itself listens at MASTER_PORT.
        if launcher.name == "torchrun" && variables.get("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True") {
            port = port.checked_add(1).context("MASTER_PORT is 65535; the port behind it is needed")?;
        }
        let on_one_host = size == 1
            || variables.number::<usize>(launcher.ranks_here)? == Some(size)
            || variables.number::<usize>(launcher.hosts)? == Some(1);
        let host = match variables.get("MASTER_ADDR") {
            Some(host) => host,
            None if on_one_host => "127.0.0.1".into(),
            None => {
                bail!("MASTER_ADDR is not set: {} has ranks on many hosts, which need rank 0's host", launcher.name)
            }
        };
        Ok(Some(Place { rank, size, local, host, port }))
    }

    /// The variables that say this, for a child process.
    pub fn variables(&self) -> [(&'static str, String); 6] {
        [
            ("RANK", self.rank.to_string()),
            ("WORLD_SIZE", self.size.to_string()),
            ("LOCAL_RANK", self.local.to_string()),
            ("MASTER_ADDR", self.host.clone()),
            ("MASTER_PORT", self.port.to_string()),
            ("TORCHELASTIC_USE_AGENT_STORE", String::new()),
        ]
    }
}
