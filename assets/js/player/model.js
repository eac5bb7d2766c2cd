// From a trace to what is shown: one item per token of the strip, one list of steps per round.
const pieceCache = new Map();
let pieces = {};

function bytesOf(token) {
  let bytes = pieceCache.get(token);
  if (!bytes) {
    bytes = decodeBase64(pieces[token]);
    pieceCache.set(token, bytes);
  }
  return bytes;
}

// New rounds bring the bytes of tokens that may have been met before without them.
function learnPieces(fresh) {
  Object.assign(pieces, fresh);
  for (const token of Object.keys(fresh)) { pieceCache.delete(+token); wholeCache.delete(+token); }
}

// Most tokens start on a character boundary: their decoding is shared.
const wholeCache = new Map();

function decodeToken(carry, token) {
  if (carry.length) return withRuns(feedBytes(carry, bytesOf(token)));
  let fed = wholeCache.get(token);
  if (!fed) {
    fed = withRuns(feedBytes(NO_BYTES, bytesOf(token)));
    wholeCache.set(token, fed);
  }
  return fed;
}

function withRuns(fed) {
  fed.runs = visibleRuns(fed.parts);
  fed.name = flatText(fed.runs);
  return fed;
}

// A token's name where no surrounding bytes are known, or after `carry`.
function tokenName(token, carry = NO_BYTES, limit = 40) {
  return shorten(decodeToken(carry, token).name, limit);
}

function emptyStore() {
  return {
    run: null, live: false, done: true, stopped: false, incomplete: false, warnings: null, badge: '', banner: '', summary: [], source: [], depths: null, drafting: null,
    trace: {spec: {sampling: {}}, prompt_tokens: [], rounds: [], pieces: {}},
    rounds: [], carry: NO_BYTES, text: '', promptItems: [],
  };
}

let store = emptyStore();

function readPrompt(tokens) {
  let carry = NO_BYTES;
  const items = tokens.map((token, position) => {
    const fed = decodeToken(carry, token);
    carry = fed.carry;
    return {token, position, runs: fed.runs};
  });
  return {items, carry};
}

function nodeState(node, accepted, flips) {
  if (accepted.has(node)) return 'accepted';
  return flips.has(node) ? 'rejected' : 'untested';
}

/* The steps a learner can stand on: draft, verify, one per coin, the untested rest, emit. */
function stepsOf(round) {
  const steps = growSteps(round);
  if (round.size && !steps.length) steps.push({stage: 'draft'});
  steps.push({stage: 'verify'});
  round.flips.forEach((flip) => steps.push({stage: 'coin', node: flip.node}));
  if (round.items.some((item) => item.state === 'untested')) steps.push({stage: 'coin', rest: true});
  steps.push({stage: 'emit'});
  return steps;
}

function readRound(raw) {
  const index = store.rounds.length;
  const tree = raw.tree || {tokens: [], parents: []};
  const verdict = raw.verdict;
  const flips = verdict.flips || [];
  const flipAt = new Map(flips.map((flip) => [flip.node, flip]));
  const slices = new Map((raw.slices || []).map((slice) => [slice.node ?? 'next', slice]));
  const accepted = verdict.accepted || [];
  const acceptedSet = new Set(accepted);
  const start = store.carry, carries = [], depths = [], items = [];
  tree.tokens.forEach((token, node) => {
    const parent = tree.parents[node];
    const before = parent < 0 ? start : carries[parent];
    const fed = decodeToken(before, token);
    carries.push(fed.carry);
    depths.push(parent < 0 ? 1 : depths[parent] + 1);
    const state = nodeState(node, acceptedSet, flipAt);
    items.push({
      round: index, node, token, state, flip: flipAt.get(node), slice: slices.get(node),
      runs: fed.runs, name: fed.name, before, depth: depths[node], parent,
      position: raw.context_length - 1 + depths[node],
      cut: state === 'accepted' && accepted.indexOf(node) >= raw.emitted.length,
    });
  });
  const tip = accepted.length ? accepted[accepted.length - 1] : -1;
  const before = tip < 0 ? start : carries[tip];
  const state = {correction: 'corrected', bonus: 'bonus', plain: 'plain'}[verdict.outcome];
  const ending = decodeToken(before, verdict.next_token);
  const lastFlip = flips[flips.length - 1];
  const next = {
    round: index, node: 'next', token: verdict.next_token, state, before,
    runs: ending.runs, name: ending.name,
    depth: accepted.length + 1, parent: tip, position: raw.context_length + accepted.length,
    slice: (state === 'corrected' && lastFlip && slices.get(lastFlip.node)) || slices.get('next'),
    from: state === 'corrected' ? lastFlip : undefined,
    cut: raw.emitted.length <= accepted.length,
  };
  const chain = tree.parents.every((parent, node) => parent === node - 1);
  const round = {
    raw, index, size: tree.tokens.length, tree, flips, accepted, outcome: verdict.outcome, items, next, chain,
    timing: {start_s: 0, draft_s: 0, target_s: 0, verify_s: 0, commit_s: 0, ...(raw.timing || {})},
    evidence: raw.evidence || [], startChar: store.text.length, startCarry: start,
  };
  round.grown = readGrown(round);
  round.levels = readLevels(round);
  for (const token of raw.emitted) {
    const fed = decodeToken(store.carry, token);
    store.carry = fed.carry;
    store.text += fed.clean;
  }
  round.endChar = store.text.length;
  round.steps = stepsOf(round);
  return round;
}

// A run that ended at a stop string emits the text before it.
function applyStopString() {
  const last = store.rounds[store.rounds.length - 1];
  if (!last || last.raw.stop_reason !== 'stop_string') return;
  store.text = store.text.slice(0, findStop(store.text, store.trace.spec.stop_strings || []));
}

// Where the stop string begins that is complete first, as find_stop in records.py; undefined without one.
function findStop(text, stops) {
  const found = stops.filter((stop) => stop && text.includes(stop)).map((stop) => [text.indexOf(stop), stop.length]);
  found.sort(([a, m], [b, n]) => a + m - (b + n) || a - b);
  return found[0]?.[0];
}

function addRounds(rounds) {
  for (const raw of rounds) store.rounds.push(readRound(raw));
  applyStopString();
}

function loadStore(message) {
  store = {...emptyStore(), run: message.run ?? null};
  store.trace = message.trace;
  store.trace.rounds ||= [];
  store.trace.pieces ||= {};
  store.trace.spec.sampling ||= {};
  pieces = store.trace.pieces;
  pieceCache.clear();
  wholeCache.clear();
  const prompt = readPrompt(store.trace.prompt_tokens || []);
  store.promptItems = prompt.items;
  store.carry = prompt.carry;
  addRounds(store.trace.rounds);
}

const itemAt = (round, node) => {
  const found = store.rounds[round];
  return found && (node === 'next' ? found.next : found.items[node]);
};

const keyOf = (item) => `${item.round}:${item.node}`;

const countState = (round, state) => round.items.filter((item) => item.state === state).length;
