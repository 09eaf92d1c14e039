//! How the 128 bytes of a communicator's id come from rank 0 to the others: over a TCP connection of each.
//!
//! A rank sends a word that names this protocol, its number and the number of ranks. Rank 0 answers with 0 and the id,
//! or with 1 and a sentence. There is no password: the network must be a trusted one, as RCCL's own connections need.
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

pub const ID_BYTES: usize = 128;

const WORD: &[u8; 8] = b"crk-rdv1";
const PAUSE: Duration = Duration::from_millis(20);
/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(5);

fn left(deadline: Instant) -> Option<Duration> {
    deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs().with_context(|| format!("MASTER_ADDR {host} has no address"))?;
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        bail!("MASTER_ADDR {host} has no address");
    }
    Ok(found)
}

/// Listens where the other ranks will ask.
pub fn listen(host: &str, port: u16) -> Result<TcpListener> {
    let address = listening_address(host, &addresses(host, port)?);
    TcpListener::bind((address, port)).with_context(|| {
        format!("rank 0 cannot listen at {host}:{port}; MASTER_PORT names another port, the same for all ranks")
    })
}

/// The address of rank 0 for a name that has the addresses `found`. A name that is not the loopback's own is listened
/// to on all networks: a host may know itself as 127.0.1.1, and others may reach it by a translated address.
pub fn listening_address(host: &str, found: &[SocketAddr]) -> IpAddr {
    let literal = host.parse::<IpAddr>().ok().filter(IpAddr::is_loopback);
    match (literal, found.iter().all(SocketAddr::is_ipv6)) {
        (Some(loopback), _) => loopback,
        (None, _) if host == "localhost" => found[0].ip(),
        (None, true) => Ipv6Addr::UNSPECIFIED.into(),
        (None, false) => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Gives `id` to ranks 1 to `size - 1`, as rank 0. Fails after `timeout`, and names the ranks that did not come.
pub fn serve(listener: &TcpListener, size: usize, id: &[u8; ID_BYTES], timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    let mut came = vec![false; size];
    came[0] = true;
    let mut refused = String::new();
    listener.set_nonblocking(true)?;
    while !came.iter().all(|came| *came) {
        match listener.accept() {
            // A stranger, or a rank that will ask again.
            Ok((stream, from)) => match answer(stream, &mut came, id) {
                Ok(None) | Err(_) => {}
                Ok(Some(sentence)) => refused = format!("; {from} was refused: {sentence}"),
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(error) => return Err(error).context("rank 0 cannot accept connections"),
        }
        if left(deadline).is_none() && !came.iter().all(|came| *came) {
            let missing: Vec<_> = (0..size).filter(|rank| !came[*rank]).map(|rank| rank.to_string()).collect();
            bail!("ranks {} of {size} did not come within {timeout:?}{refused}", missing.join(", "));
        }
    }
    Ok(())
}

/// Answers one connection. Returns the sentence of a refusal.
fn answer(mut stream: TcpStream, came: &mut [bool], id: &[u8; ID_BYTES]) -> Result<Option<String>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut asked = [0; 16];
    stream.read_exact(&mut asked)?;
    if &asked[..8] != WORD {
        bail!("no rank");
    }
    let number = |at: usize| u32::from_le_bytes([asked[at], asked[at + 1], asked[at + 2], asked[at + 3]]) as usize;
    let (rank, size) = (number(8), number(12));
    let sentence = if size != came.len() {
        format!("rank {rank} has {size} ranks, and rank 0 has {}", came.len())
    } else if rank >= size {
        format!("rank {rank} is not below {size}")
    } else if came[rank] {
        format!("rank {rank} is there already")
    } else {
        stream.write_all(&[0])?;
        stream.write_all(id)?;
        // A rank that has given up on this connection asks again.
        stream.read_exact(&mut asked[..1])?;
        came[rank] = true;
        return Ok(None);
    };
    stream.write_all(&[1, sentence.len() as u8])?;
    stream.write_all(&sentence.as_bytes()[..sentence.len().min(255)])?;
    Ok(Some(sentence))
}

/// Asks rank 0 for the id, until it answers or `timeout` is over.
pub fn ask(host: &str, port: u16, rank: usize, size: usize, timeout: Duration) -> Result<[u8; ID_BYTES]> {
    let deadline = Instant::now() + timeout;
    let mut failure = anyhow::anyhow!("there was no time to ask");
    while let Some(left) = left(deadline) {
        match attempt(host, port, rank, size, left) {
            Ok(Ok(id)) => return Ok(id),
            Ok(Err(sentence)) => bail!("rank {rank}: rank 0 at {host}:{port} refuses: {sentence}"),
            Err(error) => failure = error,
        }
        std::thread::sleep(PAUSE.min(left));
    }
    let advice = "MASTER_ADDR and MASTER_PORT say where rank 0 is";
    Err(failure.context(format!("rank {rank}: no answer of rank 0 at {host}:{port} in {timeout:?}; {advice}")))
}

/// Asks once, for at most `left` at each address. The inner error is rank 0's sentence.
fn attempt(
    host: &str,
    port: u16,
    rank: usize,
    size: usize,
    left: Duration,
) -> Result<std::result::Result<[u8; ID_BYTES], String>> {
    let mut failure = anyhow::anyhow!("no address");
    for address in addresses(host, port)? {
        let mut stream = match TcpStream::connect_timeout(&address, left.min(SILENCE)) {
            Ok(stream) => stream,
            Err(error) => {
                failure = error.into();
                continue;
            }
        };
        stream.set_read_timeout(Some(left.min(2 * SILENCE)))?;
        stream.set_write_timeout(Some(left.min(SILENCE)))?;
        let mut asked = WORD.to_vec();
        asked.extend((rank as u32).to_le_bytes());
        asked.extend((size as u32).to_le_bytes());
        stream.write_all(&asked)?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        return match kind {
            [0] => {
                let mut id = [0; ID_BYTES];
                stream.read_exact(&mut id)?;
                stream.write_all(&[0])?;
                Ok(Ok(id))
            }
            [1] => {
                stream.read_exact(&mut kind)?;
                let mut sentence = vec![0; kind[0].into()];
                stream.read_exact(&mut sentence)?;
                Ok(Err(String::from_utf8_lossy(&sentence).into_owned()))
            }
            _ => Ok(Err("another program listens there".into())),
        };
    }
    Err(failure)
}
