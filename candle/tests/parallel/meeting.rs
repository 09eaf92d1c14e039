//! How ranks meet over TCP, and how processes end together.
use crate::Test;
use crate::launch::Processes;
use crate::rendezvous::{ID_BYTES, ask, listen, listening_address, serve};
use anyhow::{Context, Result};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[
    ("ranks_get_the_id", ranks_get_the_id),
    ("ranks_that_do_not_come", ranks_that_do_not_come),
    ("ranks_that_do_not_fit", ranks_that_do_not_fit),
    ("strangers", strangers),
    ("where_rank_0_listens", where_rank_0_listens),
    #[cfg(target_os = "linux")]
    ("a_process_that_dies", a_process_that_dies),
    #[cfg(target_os = "linux")]
    ("processes_that_end_well", processes_that_end_well),
];

const HOST: &str = "127.0.0.1";
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);
/// A busy machine connects threads in less.
const MIDDLE: Duration = Duration::from_secs(3);

fn id() -> [u8; ID_BYTES] {
    std::array::from_fn(|i| i as u8 ^ 0x5a)
}

/// A listener on a port that was free.
fn listener() -> Result<(TcpListener, u16)> {
    let listener = listen(HOST, 0)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

fn ranks_get_the_id() -> Result<()> {
    // The others ask before rank 0 listens.
    let (closed, port) = listener()?;
    drop(closed);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (1..4).map(|rank| scope.spawn(move || ask("localhost", port, rank, 4, LONG))).collect();
        std::thread::sleep(Duration::from_millis(100));
        serve(&listen(HOST, port)?, 4, &id(), LONG)?;
        for rank in ranks {
            assert_eq!(rank.join().expect("no panic")?, id());
        }
        Ok(())
    })
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) {
    let error = format!("{:#}", result.expect_err("must fail"));
    for word in words {
        assert!(error.contains(word), "no {word:?} in {error:?}");
    }
}

fn ranks_that_do_not_come() -> Result<()> {
    let (listener, port) = listener()?;
    std::thread::scope(|scope| {
        let one = scope.spawn(move || ask(HOST, port, 2, 4, LONG));
        fails(serve(&listener, 4, &id(), MIDDLE), &["ranks 1, 3 of 4 did not come within 3s"]);
        assert_eq!(one.join().expect("no panic").expect("rank 2 is there"), id());
    });
    drop(listener);
    let begin = Instant::now();
    let words = ["rank 1: no answer of rank 0 at 127.0.0.1", "in 300ms", "MASTER_PORT", "refused"];
    fails(ask(HOST, port, 1, 2, SHORT), &words);
    assert!(begin.elapsed() >= SHORT && begin.elapsed() < LONG);
    fails(ask("no-such-host.invalid", port, 1, 2, SHORT), &["no-such-host.invalid"]);
    Ok(())
}

fn ranks_that_do_not_fit() -> Result<()> {
    let (listener, port) = listener()?;
    // Someone else has the port.
    fails(listen(HOST, port), &["rank 0 cannot listen at 127.0.0.1", "MASTER_PORT"]);
    std::thread::scope(|scope| {
        let rank_0 = scope.spawn(move || serve(&listener, 3, &id(), MIDDLE));
        ask(HOST, port, 1, 3, LONG)?;
        fails(ask(HOST, port, 1, 3, LONG), &["refuses: rank 1 is there already"]);
        fails(ask(HOST, port, 3, 3, LONG), &["refuses: rank 3 is not below 3"]);
        fails(ask(HOST, port, 1, 2, LONG), &["refuses: rank 1 has 2 ranks, and rank 0 has 3"]);
        fails(rank_0.join().expect("no panic"), &["ranks 2 of 3", "was refused: rank 1 has 2 ranks, and rank 0 has 3"]);
        Ok(())
    })
}

fn where_rank_0_listens() -> Result<()> {
    for (host, found, expected) in [
        ("127.0.0.1", "127.0.0.1:1", "127.0.0.1"),
        ("::1", "[::1]:1", "::1"),
        ("localhost", "127.0.0.1:1", "127.0.0.1"),
        ("localhost", "[::1]:1", "::1"),
        // What Debian's installer writes for a host's own name.
        ("node1", "127.0.1.1:1", "0.0.0.0"),
        ("node1", "192.0.2.7:1", "0.0.0.0"),
        ("192.0.2.7", "192.0.2.7:1", "0.0.0.0"),
        ("node1", "[2001:db8::7]:1", "::"),
    ] {
        assert_eq!(listening_address(host, &[found.parse()?]), expected.parse::<std::net::IpAddr>()?, "{host}");
    }
    Ok(())
}

/// Connections that are no rank's: rank 0 goes on, and a rank that meets another program says so.
fn strangers() -> Result<()> {
    let (listener, port) = listener()?;
    std::thread::scope(|scope| -> Result<()> {
        let rank_0 = scope.spawn(move || serve(&listener, 2, &id(), LONG));
        TcpStream::connect((HOST, port))?.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        drop(TcpStream::connect((HOST, port))?);
        assert_eq!(ask(HOST, port, 1, 2, LONG)?, id());
        rank_0.join().expect("no panic")
    })?;
    let (other, port) = listener_of_another_program()?;
    fails(ask(HOST, port, 1, 2, LONG), &["another program listens there"]);
    other.join().expect("no panic")
}

fn listener_of_another_program() -> Result<(std::thread::JoinHandle<Result<()>>, u16)> {
    let (listener, port) = listener()?;
    let answers = move || {
        let (mut stream, _) = listener.accept()?;
        stream.write_all(b"220 ready\r\n").context("an answer")?;
        // Reads what the rank has sent, so that the connection does not end by a reset.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        Ok(())
    };
    Ok((std::thread::spawn(answers), port))
}

#[cfg(target_os = "linux")]
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[cfg(target_os = "linux")]
fn a_process_that_dies() -> Result<()> {
    let path = std::env::temp_dir().join(format!("candle-rocm-parallel-{}", std::process::id()));
    let file = path.display();
    for (end, how) in [("exit 3", "exit status: 3"), ("kill -9 $$", "signal: 9")] {
        let mut ranks = Processes::default();
        ranks.start(shell("exit 0"))?;
        // This one would live on.
        ranks.start(shell(&format!("echo $$ > {file}; exec sleep 100")))?;
        ranks.start(shell(&format!("until [ -s {file} ]; do sleep 0.05; done; {end}")))?;
        fails(ranks.wait(), &["rank 2 has ended", how, "the other ranks are ended too"]);
        let number = std::fs::read_to_string(&path)?;
        std::fs::remove_file(&path)?;
        let process = format!("/proc/{}", number.trim());
        assert!(!std::path::Path::new(&process).exists(), "{process} outlived the others");
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn processes_that_end_well() -> Result<()> {
    let mut ranks = Processes::default();
    ranks.start(shell("exit 0"))?;
    // A rank's standard input is a pipe that stays open.
    ranks.start(shell("timeout 0.2 cat; test $? = 124"))?;
    ranks.wait()?;
    let mut ranks = Processes::default();
    fails(ranks.start(Command::new("/no/such/program")), &["rank 0 does not start"]);
    Ok(())
}
