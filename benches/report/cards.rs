//! The cards that a report knows: the speed of their memory, as their makers state it.

/// A card's name, and its memory's speed in GB/s. A name that begins another comes after it.
const CARDS: [(&str, f64); 41] = [
    ("Radeon RX 6600 XT", 256.0),
    ("Radeon RX 6600", 224.0),
    ("Radeon RX 6650 XT", 280.0),
    ("Radeon RX 6700 XT", 384.0),
    ("Radeon RX 6750 XT", 432.0),
    ("Radeon RX 6800 XT", 512.0),
    ("Radeon RX 6800", 512.0),
    ("Radeon RX 6900 XT", 512.0),
    ("Radeon RX 6950 XT", 576.0),
    ("Radeon RX 7600 XT", 288.0),
    ("Radeon RX 7600", 288.0),
    ("Radeon RX 7700 XT", 432.0),
    ("Radeon RX 7800 XT", 624.0),
    ("Radeon RX 7900 GRE", 576.0),
    ("Radeon RX 7900 XTX", 960.0),
    ("Radeon RX 7900 XT", 800.0),
    ("Radeon RX 9060 XT", 320.0),
    ("Radeon RX 9070 XT", 640.0),
    ("Radeon RX 9070", 640.0),
    ("Radeon AI PRO R9700", 640.0),
    ("Radeon PRO W6800", 512.0),
    ("Radeon PRO W7700", 576.0),
    ("Radeon PRO W7800", 576.0),
    ("Radeon PRO W7900", 864.0),
    ("Radeon PRO V620", 512.0),
    ("Radeon 8060S Graphics", 256.0),
    ("Radeon 8050S Graphics", 256.0),
    ("Radeon VII", 1024.0),
    ("Instinct MI50", 1024.0),
    ("Instinct MI60", 1024.0),
    ("Instinct MI100", 1228.8),
    ("Instinct MI210", 1638.4),
    // One of the two devices of a card.
    ("Instinct MI250X", 1638.4),
    ("Instinct MI250", 1638.4),
    ("Instinct MI300A", 5300.0),
    ("Instinct MI300X", 5300.0),
    ("Instinct MI325X", 6000.0),
    ("Instinct MI350X", 8000.0),
    ("Instinct MI355X", 8000.0),
    ("H100 80GB HBM3", 3350.0),
    ("H200", 4800.0),
];

/// The memory's speed of the card that a runtime names, in GB/s; None for a card that is not in the list.
pub fn memory_gb_per_s(name: &str) -> Option<f64> {
    let name = name.to_lowercase();
    CARDS.iter().find(|(card, _)| has(&name, &card.to_lowercase())).map(|(_, speed)| *speed)
}

/// Whether `card` stands in `name`, and no further letter or digit follows.
fn has(name: &str, card: &str) -> bool {
    let follows = |at: usize| name[at + card.len()..].chars().next().is_some_and(char::is_alphanumeric);
    name.find(card).is_some_and(|at| !follows(at))
}
