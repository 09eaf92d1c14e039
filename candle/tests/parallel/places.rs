//! What the example reads of launchers' variables, and its options.
use crate::Test;
use crate::config::{self, Split};
use crate::launch;
use crate::options::{HELP, Options, Source};
use crate::place::{PORT, Place};
use anyhow::Result;

pub const TESTS: &[(&str, Test)] = &[
    ("launchers", launchers),
    ("contradictory_launchers", contradictory_launchers),
    ("numbers_of_gpus", numbers_of_gpus),
    ("the_command_line", the_command_line),
    ("numbers_of_ranks", numbers_of_ranks),
];

/// What is read of variables, written `NAME=value` with spaces between them.
fn read(variables: &str, ranks: Option<usize>) -> Result<Option<Place>> {
    let pairs: Vec<_> = variables.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
    let find = |name: &str| pairs.iter().find(|(there, _)| *there == name).map(|(_, value)| (*value).to_owned());
    Place::read(find, ranks)
}

fn launchers() -> Result<()> {
    let place = |rank, size, local, host: &str, port| Some(Place { rank, size, local, host: host.into(), port });
    let torchrun = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=node1 MASTER_PORT=1234";
    let mpirun = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1";
    let srun = "SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0 SLURM_STEP_ID=0";
    // The shell of salloc with LaunchParameters=use_interactive_step, and a batch script that was submitted there.
    let interactive = "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_STEP_ID=4294967290";
    for (variables, ranks, expected) in [
        ("", None, None),
        ("MASTER_ADDR=node1 MASTER_PORT=1234", Some(2), None),
        ("RANK= WORLD_SIZE=", None, None),
        (torchrun, None, place(5, 8, 1, "node1", 1234)),
        (torchrun, Some(8), place(5, 8, 1, "node1", 1234)),
        // torchrun's own store has the port.
        (&format!("{torchrun} TORCHELASTIC_USE_AGENT_STORE=True"), None, place(5, 8, 1, "node1", 1235)),
        (&format!("{torchrun} TORCHELASTIC_USE_AGENT_STORE=False"), None, place(5, 8, 1, "node1", 1234)),
        ("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0", None, place(0, 1, 0, "127.0.0.1", PORT)),
        ("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", None, place(1, 2, 1, "127.0.0.1", PORT)),
        (&format!("{mpirun} MASTER_ADDR=node1"), None, place(3, 4, 1, "node1", PORT)),
        (&format!("{mpirun} OMPI_COMM_WORLD_LOCAL_SIZE=4"), None, place(3, 4, 1, "127.0.0.1", PORT)),
        (&format!("{srun} MASTER_ADDR=node1 MASTER_PORT=99"), None, place(2, 4, 0, "node1", 99)),
        (&format!("{srun} SLURM_STEP_NUM_NODES=1"), None, place(2, 4, 0, "127.0.0.1", PORT)),
        (
            &format!("{srun} SLURM_STEP_NUM_NODES=1").replace("STEP_ID=0", "STEPID=3"),
            None,
            place(2, 4, 0, "127.0.0.1", PORT),
        ),
        // An allocation, a batch script that starts its ranks itself, and a step that does.
        ("SLURM_NTASKS=4", Some(4), None),
        ("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0", Some(4), None),
        ("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_STEP_ID=0", Some(4), None),
        (
            "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_STEP_ID=0",
            None,
            place(0, 1, 0, "127.0.0.1", PORT),
        ),
        (interactive, Some(4), None),
        (interactive, None, place(0, 1, 0, "127.0.0.1", PORT)),
        // srun may have started mpirun, and mpirun torchrun.
        (&format!("{srun} {mpirun} MASTER_ADDR=node1"), None, place(3, 4, 1, "node1", PORT)),
        (&format!("{srun} {mpirun} {torchrun}"), None, place(5, 8, 1, "node1", 1234)),
    ] {
        assert_eq!(read(variables, ranks)?, expected, "{variables}");
    }
    // What this program's children get is read as it was meant.
    let own = place(1, 2, 1, "127.0.0.1", 4321).expect("a place");
    let text: Vec<_> = own.variables().iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(read(&format!("{} {torchrun}", text.join(" ")), Some(2))?, Some(own));
    Ok(())
}

fn contradictory_launchers() -> Result<()> {
    let all = "LOCAL_RANK=0 MASTER_ADDR=node1";
    for (variables, ranks, words) in [
        ("RANK=1", None, vec!["WORLD_SIZE is not set, beside RANK"]),
        ("WORLD_SIZE=2", None, vec!["RANK is not set, beside WORLD_SIZE"]),
        ("RANK=0 WORLD_SIZE=2", None, vec!["LOCAL_RANK is not set, beside RANK and WORLD_SIZE"]),
        ("RANK=2 WORLD_SIZE=2", None, vec!["RANK is 2", "WORLD_SIZE is 2"]),
        ("RANK=0 WORLD_SIZE=0", None, vec!["WORLD_SIZE is 0"]),
        ("RANK=-1 WORLD_SIZE=2", None, vec!["RANK is \"-1\""]),
        ("RANK=0 WORLD_SIZE=two", None, vec!["WORLD_SIZE is \"two\""]),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=70000", None, vec!["MASTER_PORT is \"70000\""]),
        ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=1", None, vec!["LOCAL_RANK is 1", "RANK is 0"]),
        ("RANK=0 WORLD_SIZE=2", Some(4), vec!["--ranks is 4", "WORLD_SIZE is 2", "torchrun"]),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=65535 TORCHELASTIC_USE_AGENT_STORE=True", None, vec!["MASTER_PORT is 65535"]),
        ("OMPI_COMM_WORLD_RANK=0", None, vec!["OMPI_COMM_WORLD_SIZE is not set"]),
        (
            "SLURM_STEP_ID=1 SLURM_PROCID=4 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0",
            None,
            vec!["SLURM_PROCID is 4", "SLURM_STEP_NUM_TASKS is 4"],
        ),
        (
            "SLURM_STEP_ID=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0",
            Some(2),
            vec!["--ranks is 2", "SLURM_STEP_NUM_TASKS is 4", "srun"],
        ),
    ] {
        // The first of two equal names counts. A case that is about LOCAL_RANK's absence has no more variables.
        let variables =
            if words[0].starts_with("LOCAL_RANK is not") { variables.into() } else { format!("{variables} {all}") };
        let error = read(&variables, ranks).expect_err(&variables).to_string();
        for word in words {
            assert!(error.contains(word), "{variables}: no {word:?} in {error:?}");
        }
    }
    // Ranks on many hosts, or on who knows how many.
    for variables in [
        "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "SLURM_STEP_ID=1 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0 SLURM_STEP_NUM_NODES=2",
    ] {
        let error = read(variables, None).expect_err(variables).to_string();
        assert!(error.contains("MASTER_ADDR is not set"), "{error}");
    }
    Ok(())
}

fn numbers_of_gpus() -> Result<()> {
    for (first, local, count, expected) in [
        (0, 1, 2, 1),
        (2, 1, 4, 3),
        // Each rank sees its own alone.
        (0, 0, 1, 0),
        (0, 3, 1, 0),
        // What opening then says.
        (0, 1, 0, 0),
        (1, 0, 1, 1),
    ] {
        assert_eq!(launch::gpu(first, local, count)?, expected, "{first} {local} {count}");
    }
    for (first, local, count) in [(0, 2, 2), (1, 1, 2)] {
        let error = launch::gpu(first, local, count).expect_err("no GPU").to_string();
        assert_eq!(error, format!("rank {local} of this host has no GPU: it takes number 2, and there are 2"));
    }
    Ok(())
}

fn parse(arguments: &str) -> Result<Option<Options>> {
    Options::parse(lexopt::Parser::from_iter(format!("llama_parallel {arguments}").split_whitespace()))
}

fn the_command_line() -> Result<()> {
    assert!(parse("--help")?.is_none());
    for option in ["random", "ranks", "prompt", "prompt-tokens", "tokens", "context", "dtype", "temperature", "top-p"] {
        assert!(HELP.contains(&format!(" --{option} ")), "{option}");
    }
    let options = parse("--random 8b --ranks 4 --dtype f16 --tokens 9 --timeout 7")?.expect("options");
    assert!(matches!(options.source, Source::Random(shape) if shape.name == "8b"));
    assert_eq!((options.ranks, options.tokens, options.timeout.as_secs()), (Some(4), 9, 7));
    assert!(matches!(parse("folder")?.expect("options").source, Source::Folder(path) if path.ends_with("folder")));
    for (arguments, word) in [
        ("", "no model is named"),
        ("folder --random 8b", "give one of them"),
        ("--random 9b", "--random 9b: there are tiny, 1b, 3b, 8b, 70b"),
        ("folder --ranks 0", "--ranks 0: at least 1"),
        ("folder --ranks many", "many"),
        ("folder --dtype q4_0", "--dtype q4_0: bf16, f16 or f32"),
        ("folder --timeout 0", "--timeout 0"),
        ("folder --timeout 18446744073709551615", "at most 31536000, which is a year"),
        ("folder --temperature -1", "--temperature -1"),
        ("folder --top-p 2", "--top-p 2"),
        ("folder --what", "--what"),
        ("folder another", "--help"),
    ] {
        let error = format!("{:#}", parse(arguments).map(|_| ()).expect_err(arguments));
        assert!(error.contains(word), "{arguments}: no {word:?} in {error:?}");
    }
    Ok(())
}

fn numbers_of_ranks() -> Result<()> {
    let config = config::shape("8b")?.config();
    let split = Split::new(&config, 3, 4)?;
    let parts = (split.heads, split.kv_heads, split.head, split.feed_forward, split.vocabulary);
    assert_eq!(parts, (8, 2, 128, 3584, 32064));
    let mut odd = config.clone();
    odd.vocab_size = 32003;
    assert_eq!(Split::new(&odd, 0, 2)?.vocabulary, 32003, "the output layer is whole");
    type Change = fn(&mut candle_transformers::models::llama::Config);
    let cases: [(Change, usize, usize, &str); 8] = [
        (|_| {}, 0, 3, "3 ranks: num_attention_heads is 32, which must be a multiple"),
        (|_| {}, 0, 16, "16 ranks: num_key_value_heads is 8, which must be a multiple"),
        (|config| config.intermediate_size = 14337, 0, 2, "2 ranks: intermediate_size is 14337"),
        (|config| config.num_key_value_heads = 5, 0, 1, "num_attention_heads is 32, which must be a multiple of"),
        (|config| config.num_key_value_heads = 0, 0, 1, "num_key_value_heads, 0"),
        (|config| config.hidden_size = 4097, 0, 1, "hidden_size is 4097"),
        (|_| {}, 4, 4, "rank 4 of 4 ranks"),
        (|_| {}, 0, 0, "rank 0 of 0 ranks"),
    ];
    for (change, rank, size, word) in cases {
        let mut changed = config.clone();
        change(&mut changed);
        let error = Split::new(&changed, rank, size).expect_err(word).to_string();
        assert!(error.contains(word), "no {word:?} in {error:?}");
    }
    Ok(())
}
