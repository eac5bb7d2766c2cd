// Export: the trace as loaded, and one line per round as CSV.
const CSV_COLUMNS = ['round', 'context_length', 'drafted', 'tested', 'accepted', 'emitted', 'outcome', 'stop_reason',
  'draft_ms', 'target_ms', 'verify_ms', 'commit_ms', 'emitted_tokens', 'emitted_text'];

function csvText() {
  const rows = store.rounds.map((round) => {
    const t = round.timing, ms = (s) => (1000 * s).toFixed(3);
    // JSON quoting keeps newlines on one line and stops spreadsheets from reading "=..." as a formula.
    const text = JSON.stringify(store.text.slice(round.startChar, round.endChar)).replaceAll('"', '""');
    return [round.index + 1, round.raw.context_length, round.size, round.flips.length, round.accepted.length, round.raw.emitted.length,
      round.outcome, round.raw.stop_reason || '', ms(t.draft_s), ms(t.target_s), ms(t.verify_s), ms(t.commit_s), round.raw.emitted.join(' '), `"${text}"`].join(',');
  });
  return [CSV_COLUMNS.join(','), ...rows, ''].join('\r\n');
}

function download(text, type, name) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const link = make('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function saveTrace() { download(JSON.stringify(store.trace), 'application/json', 'speclab-trace.json'); }
function saveRounds() { download(csvText(), 'text/csv;charset=utf-8', 'speclab-rounds.csv'); }
