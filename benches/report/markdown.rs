//! The report as a page.
use super::{Report, Section};
use std::fmt::Write as _;

/// The page. `chart` is the file of the chart, beside it.
pub fn text(report: &Report, chart: &str) -> String {
    let mut page = Page(String::new());
    page.head(report);
    page.checks(report);
    page.speed(report);
    page.ops(report, chart);
    page.llama(report);
    page.next();
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, line: impl AsRef<str>) {
        self.0.push_str(line.as_ref());
        self.0.push('\n');
    }

    fn section(&mut self, title: &str) {
        self.line(format!("\n## {title}"));
    }

    fn table(&mut self, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        self.line(format!("| {} |", head.join(" | ")));
        self.line(format!("|{}", "---|".repeat(head.len())));
        for row in rows {
            let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
            self.line(format!("| {} |", cells.join(" | ")));
        }
    }

    /// The error of a section that failed; nothing for others.
    fn error<T>(&mut self, section: &Section<T>) {
        if let Some(error) = section.error() {
            self.line(format!("**Failed**: {error}"));
        }
    }

    fn head(&mut self, report: &Report) {
        let (card, machine) = (&report.card, &report.machine);
        self.line(format!("# {} ({})\n", card.name, card.target));
        if report.quick {
            self.line("A quick run: it shows that the report works. Its sizes are too small for speeds.\n");
        }
        if let Some(remark) = &card.remark {
            self.line(format!("{remark}\n"));
        }
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "none embedded".into());
        let profile = if machine.optimised_build { "release" } else { "dev" };
        let rows = [
            (
                "device",
                format!("{}, {} compute units, waves of {} lanes", report.device, card.compute_units, card.wave_lanes),
            ),
            ("memory of the device", format!("{:.1} GiB", card.memory_gib)),
            ("runtime", format!("{} {}", card.backend, card.runtime_version)),
            ("matrix products by", card.matrix_products_by.clone()),
            ("candle-rocm-sys", format!("{}, {profile} profile", machine.crate_version)),
            ("compiler of the code objects", known(&machine.code_object_compiler)),
            ("system", format!("{}, {}", machine.os, machine.kernel)),
            ("CPU", format!("{}, {} threads, {:.1} GiB", machine.cpu, machine.cpu_threads, machine.memory_gib)),
            ("the report took", format!("{:.0} s", report.took_s)),
        ];
        self.table(&["", ""], rows.map(|(key, value)| vec![key.to_owned(), value]));
        self.section("Diagnosis");
        let rows = report.diagnosis.iter().map(|finding| {
            vec![finding.severity.into(), finding.topic.into(), finding.sentence.clone(), finding.remedy.clone()]
        });
        self.table(&["", "about", "found", "what to do"], rows);
    }

    fn checks(&mut self, report: &Report) {
        self.section("Checks");
        self.error(&report.checks);
        let Some(suites) = report.checks.done() else { return };
        let rows = suites.iter().map(|suite| {
            let failed = suite.failed.len();
            let result = match (failed, suite.run) {
                (0, 0) => "none for this device".into(),
                (0, _) => "all passed".into(),
                _ => format!("**{failed} failed**"),
            };
            vec![suite.name.to_owned(), suite.trials.to_string(), suite.run.to_string(), result]
        });
        self.table(&["suite", "trials", "run here", "result"], rows);
        for failure in suites.iter().flat_map(|suite| &suite.failed) {
            self.line(format!("\n`{}` failed:\n\n```\n{}\n```", failure.trial, failure.message.trim_end()));
        }
    }

    fn speed(&mut self, report: &Report) {
        self.section("Copies and launches");
        self.error(&report.copies);
        self.error(&report.launches);
        self.error(&report.replays);
        let gb = |speed: f64| format!("{speed:.2} GB/s");
        let us = |time: f64| format!("{time:.2} us");
        let mut rows = Vec::new();
        if let Some(copies) = report.copies.done() {
            let mib = copies.bytes as f64 / f64::from(1 << 20);
            rows.push((
                format!("copy of {mib} MiB on the device, read and written bytes"),
                gb(copies.device_to_device_gb_per_s),
            ));
            rows.extend(
                report
                    .card
                    .stated_memory_gb_per_s
                    .map(|stated| ("the card's memory, as stated by its maker".into(), gb(stated))),
            );
            rows.push(("from pinned memory to the device".into(), gb(copies.host_to_device_gb_per_s)));
            rows.push(("from the device to pinned memory".into(), gb(copies.device_to_host_gb_per_s)));
        }
        if let Some(launches) = report.launches.done() {
            rows.push(("a launch: the host's time in the call".into(), us(launches.host_us)));
            rows.push(("from one launch to the next, in a queue".into(), us(launches.queued_us)));
            rows.push(("the same in a graph".into(), us(launches.graph_us)));
            rows.push(("one launch, and waiting for it".into(), us(launches.round_trip_us)));
        }
        if let Some(replays) = report.replays.done() {
            let bits = if replays.same_bits { "the same results" } else { "**other results**" };
            let graphs = replays.in_graphs_us.map_or("the handle makes no graphs".into(), us);
            rows.push((format!("a step of {} launches, one by one", replays.launches), us(replays.one_by_one_us)));
            rows.push((format!("the same in graphs (CANDLE_ROCM_REPLAY=1), {bits}"), graphs));
        }
        self.table(&["", ""], rows.into_iter().map(|(key, value)| vec![key, value]));
    }

    fn ops(&mut self, report: &Report, chart: &str) {
        self.section("Ops");
        self.error(&report.ops);
        let Some(ops) = report.ops.done() else { return };
        self.line(format!("Tensors of {} elements. ![Shares of the copy's speed]({chart})\n", ops.elements));
        let rows = ops.rows.iter().map(|row| {
            let dims = row.dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
            let speed = match (row.gb_per_s, row.gflop_per_s) {
                (Some(speed), _) => format!("{speed:.1} GB/s"),
                (_, Some(speed)) => format!("{speed:.1} GFLOP/s"),
                _ => String::new(),
            };
            let share = row.share_of_copy.map_or(String::new(), |share| format!("{share:.2}"));
            let time = format!("{:.1} +-{:.0}%", row.time_us, row.spread_percent);
            vec![row.family.into(), row.op.clone(), dims, time, speed, share]
        });
        self.table(&["family", "op", "dims", "us", "speed", "of the copy's"], rows);
        for failure in &ops.failures {
            self.line(format!("\n**Failed**: {failure}"));
        }
    }

    fn llama(&mut self, report: &Report) {
        self.section("A small Llama");
        self.error(&report.llama);
        let Some(llama) = report.llama.done() else { return };
        let size = llama.model;
        self.line(format!(
            "{} layers, hidden {}, {} heads, {} KV heads, ffn {}, vocabulary {}; random {} weights, {:.0} MB.",
            size.layers,
            size.hidden,
            size.heads,
            size.kv_heads,
            size.ffn,
            size.vocabulary,
            llama.weights,
            llama.weight_bytes as f64 * 1e-6
        ));
        let (difference, limit) = (llama.difference, llama.difference_limit);
        self.line(format!(
            "The logits of a smaller model differ from those of {} by {difference:.1e} of the largest; {limit:.0e} is \
             allowed.\n",
            llama.compared_with
        ));
        let Some(speed) = &llama.speed else {
            return self.line("**The results are wrong**, so no speed is given.");
        };
        let graph = if speed.decode_in_a_graph { "as one graph" } else { "without a graph" };
        let decode = format!("decode after {} tokens, {graph}", speed.context_tokens);
        let rows = [
            (decode, format!("{:.1} tokens/s", speed.decode_tokens_per_s)),
            ("weights read in a decode step".into(), format!("{:.1} GB/s", speed.decode_weights_gb_per_s)),
            (format!("prompt of {} tokens", speed.prompt_tokens), format!("{:.1} tokens/s", speed.prompt_tokens_per_s)),
        ];
        self.table(&["", ""], rows.map(|(key, value)| vec![key, value]));
    }

    fn next(&mut self) {
        self.section("What to do with this report");
        let _ = self.0.write_str(
            "Open an issue \"Hardware report\" in the project's repository, and attach the three files: this page, the \
             chart (.svg) and the figures (.json).\nThey contain no name of a user or a machine, and no home folder. \
             docs/report.md explains each part.\n",
        );
    }
}
