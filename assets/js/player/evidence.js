// What a method wants a learner to see at a token: the fact of each kind that concerns it, in words.
const COPY_KINDS = new Set(['copied_from', 'from_earlier_text', 'pool_hit']); // say nothing of a node that was drawn
const PATH_KINDS = new Set([...COPY_KINDS, 'retokenised']);
const DRAWN_KINDS = new Set(['grown', 'window', 'layers']); // have a figure of their own

/* The fact of one kind about a node: its own, else that of the shortest path through it, else that of
   the whole proposal. */
function factFor(round, kind, node) {
  if (COPY_KINDS.has(kind) && round.raw.sampled?.[node]) return null;
  let best = null, distance = Infinity;
  for (const fact of round.evidence) {
    if (fact.kind !== kind) continue;
    if (kind === 'pool_hit' && fact.values?.length && !fact.values[node]) continue; // others gave this one
    const at = fact.node ?? -1;
    let steps = at === node ? 0 : at === -1 ? 1e6 : Infinity;
    if (steps === Infinity && PATH_KINDS.has(kind) && at < round.size) {
      const found = lineage(round, at).indexOf(node);
      if (found > 0) steps = found;
    }
    if (steps < distance) { best = fact; distance = steps; }
  }
  return best;
}

const wholeNumber = (x) => String(Math.round(x || 0));

const FACT_TEXTS = {
  copied_from: (fact) => label('evidence_copied_from', {start: fact.start || 0, stop: fact.stop || 0}),
  no_match: () => label('evidence_no_match'),
  head: (fact) => label('evidence_head', {value: wholeNumber(fact.value)}),
  draft_length: (fact) => label('evidence_draft_length', {value: wholeNumber(fact.value)}),
  pool_hit: (fact) => (fact.value ? label('evidence_pool_hits', {value: wholeNumber(fact.value)}) : label('evidence_pool_hit')),
  from_earlier_text: (fact) => label('evidence_from_earlier_text', {value: wholeNumber(fact.value)}),
  stopped_early: (fact) => (fact.value ? label('evidence_stopped_doubt', {value: prob(fact.value)}) : label('evidence_stopped_early')),
  confidence: (fact, node) => label('evidence_confidence', {value: prob(fact.values?.[node] ?? (fact.value || 0))}),
  level: (fact, node) => drafterText(1 + (fact.values?.[node] || 0)),
  survived: (fact, node) => (fact.values?.[node] ? label('evidence_survived', {value: wholeNumber(fact.values[node])}) : label('evidence_survived_new')),
  retokenised: (fact, node) => [label('evidence_retokenised', {value: wholeNumber(fact.value)}), fact.values?.length ? label('evidence_retokenised_share', {value: percent(fact.values[node])}) : ''].filter(Boolean).join('; '),
};

const drafterText = (number) => label('evidence_level', {value: number});

// One sentence per kind of evidence at a token.
function evidenceNotes(round, item) {
  const kinds = [...new Set(round.evidence.map((fact) => fact.kind))].filter((kind) => !DRAWN_KINDS.has(kind) && FACT_TEXTS[kind]);
  return kinds.flatMap((kind) => {
    if (item.node === 'next' && kind !== 'no_match') return [];
    const fact = item.node === 'next' ? round.evidence.find((one) => one.kind === kind) : factFor(round, kind, item.node);
    return fact ? [FACT_TEXTS[kind](fact, item.node)] : [];
  });
}

// Which drafter a token comes from, counted from the target; undefined where they are not told apart.
function drafterOf(item) {
  if (item.node === 'next') return undefined;
  const levels = store.rounds[item.round].levels;
  return levels && levels[item.node] + 1;
}

// Per node the drafter's level, where drafters are told apart.
function readLevels(round) {
  const fact = round.evidence.find((one) => one.kind === 'level' && one.values?.length);
  return fact?.values;
}
