// Events by delegation, messages from Python, and the start.
const ACTIONS = {
  first: () => { view.pinned = false; show(0, view.staged ? 0 : null); },
  prev: stepBack,
  play: () => setPlaying(!view.playing),
  next: stepForward,
  last: () => { view.pinned = false; goTo(lastRound()); },
  help: () => { ui.keys.hidden = !ui.keys.hidden; ui.help.setAttribute('aria-expanded', String(!ui.keys.hidden)); },
  unfold: (button) => {
    const open = ui.prompt.firstChild.classList.toggle('open');
    button.setAttribute('aria-expanded', String(open));
  },
  'open-tree': (pill) => {
    select(itemAt(+pill.closest('[data-r]').dataset.r, 'next'), {pin: false});
    openTree();
  },
  'show-tree': () => openTree(),
  grow: goToGrowStep,
  unpin,
  more: () => { view.more = !view.more; drawCard(); },
  'mode-bars': () => { view.mode = 'bars'; drawCard(); },
  'mode-overlay': () => { view.mode = 'overlay'; drawCard(); },
  guess: answerGuess,
  'save-json': saveTrace,
  'save-csv': saveRounds,
};
function openTree() {
  const node = ui.folds.querySelector('[data-fold="tree"]');
  node.open = true;
  node.scrollIntoView({block: 'nearest'});
}

const STEPPING = new Set(['first', 'prev', 'next', 'last']);

// Time from the click to the first frame after it, for the browser tests.
function measurePaint(event) {
  const started = event.timeStamp;
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { element.dataset.paintMs = (performance.now() - started).toFixed(1); };
    channel.port2.postMessage(0);
  });
}

function act(name, target) {
  if (!store.rounds.length && !['help'].includes(name)) return;
  if (STEPPING.has(name)) { setPlaying(false); view.follow = false; }
  ACTIONS[name](target);
}

for (const kind of ['pointerover', 'pointerdown', 'focusin', 'keydown']) {
  element.addEventListener(kind, (event) => { view.below = ui.folds.contains(event.target); }, {capture: true, passive: true});
}

element.addEventListener('click', (event) => {
  const token = event.target.closest('[data-k]:not(.card)');
  if (token) {
    const item = itemOfKey(token.dataset.k), again = view.pinned && view.focus === item;
    setPlaying(false);
    if (again) unpin();
    else select(item);
    measurePaint(event);
    return;
  }
  const doer = event.target.closest('[data-do]');
  if (doer) { act(doer.dataset.do, doer); return; }
  const go = event.target.closest('[data-go]');
  if (go) { setPlaying(false); view.pinned = false; goTo(+go.dataset.go); measurePaint(event); }
});

element.addEventListener('pointerover', (event) => {
  if (event.pointerType !== 'mouse') return;
  const node = event.target.closest('[data-node]');
  if (node?.closest('.fold-body.tree')) hoverTree(+node.dataset.node);
  const term = event.target.closest('[data-term]');
  ui.card.dataset.term = term ? term.dataset.term : '';
  const token = event.target.closest('[data-k]:not(.card)');
  if (!token || view.playing) return;
  const item = itemOfKey(token.dataset.k);
  if (item && phaseOf(item) !== 'hidden') preview(item);
});

element.addEventListener('pointerout', (event) => {
  if (event.target.closest('.fold-body.tree') && !event.relatedTarget?.closest?.('.fold-body.tree [data-node]')) hoverTree(null);
  if (view.hover && !event.relatedTarget?.closest?.('[data-k]:not(.card)')) preview(null);
});

element.addEventListener('input', (event) => {
  if (event.target === ui.scrub) {
    const started = performance.now();
    cancelAnimationFrame(view.scrubbing);
    view.scrubbing = requestAnimationFrame(() => {
      setPlaying(false);
      view.pinned = false;
      goTo(+ui.scrub.value);
      element.dataset.scrubMs = (performance.now() - started).toFixed(1);
    });
  }
  if (event.target === ui.speed) view.speed = +ui.speed.value;
});

element.addEventListener('change', (event) => {
  if (event.target === ui.staged) setStaged(ui.staged.checked);
  if (event.target === ui.guessing) setGuessing(ui.guessing.checked);
});

element.addEventListener('toggle', (event) => {
  const name = event.target.dataset?.fold;
  if (name === 'raw') view.rawOpen = event.target.open;
  else if (name) toggleFold(name, event.target.open);
}, true);

const inStrip = (move) => () => select(move(), {pin: false, move: true});
const STRIP_KEYS = {
  ArrowRight: inStrip(() => neighbour(1)),
  ArrowLeft: inStrip(() => neighbour(-1)),
  Enter: () => select(view.focus),
};
const PLAYER_KEYS = {
  ' ': () => act('play'),
  ArrowRight: () => act('next'),
  ArrowLeft: () => act('prev'),
  ArrowDown: () => act('next'),
  ArrowUp: () => act('prev'),
  Home: () => act('first'),
  End: () => act('last'),
  '?': () => act('help'),
  Escape: () => { if (!ui.keys.hidden) act('help'); else if (view.pinned) unpin(); },
};

element.addEventListener('focusin', (event) => {
  const node = event.target.closest('.tree-svg .node');
  if (node && node.matches(':focus-visible')) focusTree(node);
});

element.addEventListener('focusout', (event) => {
  if (!event.target.closest('.tree-svg .node') || event.relatedTarget?.closest?.('.tree-svg .node')) return;
  hoverTree(null);
  if (view.hover) preview(null);
});

const TREE_KEYS = new Set(['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'Enter', ' ']);

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target, inRounds = ui.rounds.contains(target), key = event.key, member = target.closest('.tree-svg .node');
  if (member && TREE_KEYS.has(key)) {
    event.preventDefault();
    event.stopPropagation();
    walkTree(member, key);
    return;
  }
  const native = target.matches('input[type=range], select') ? key !== ' ' && key !== '?' && key !== 'Escape' : target.matches('button, summary, input') && (key === ' ' || key === 'Enter');
  if (native) return;
  const run = (inRounds && STRIP_KEYS[key]) || PLAYER_KEYS[key];
  if (!run || (target.closest('.scroller, .scroll-x, .kv-cells, .code, .output') && key.startsWith('Arrow'))) return;
  event.preventDefault();
  event.stopPropagation();
  run();
  if (inRounds) tokenNodes.get(keyOf(view.focus))?.focus({preventScroll: true});
}

element.addEventListener('keydown', onKey);

// Nothing has the focus on a fresh page, nor after a click on a token: keys that scroll stay the page's.
const PAGE_KEYS = new Set(['ArrowLeft', 'ArrowRight', '?', 'Escape']);
document.addEventListener('keydown', (event) => {
  if (event.target === document.body && PAGE_KEYS.has(event.key) && element.offsetParent) onKey(event);
});

function refresh(message) {
  for (const [name, field] of [['summary', 'summary'], ['badge', 'badge'], ['banner', 'banner'], ['rule_source', 'source'], ['warnings', 'warnings'], ['depths', 'depths'], ['drafting', 'drafting']]) {
    if (message[name] !== undefined && message[name] !== null) store[field] = message[name];
  }
  if (message.live !== undefined) store.live = message.live;
  store.done = message.done ?? !store.live;
  store.stopped = Boolean(message.stopped);
  paintHeader();
}

function grow(rounds, newPieces) {
  const from = store.rounds.length;
  learnPieces(newPieces || {});
  store.trace.rounds.push(...rounds);
  addRounds(rounds);
  if (roundNodes.length === from) appendToStrip(from, store.rounds.length); // else the builder gets there
  if (view.follow || from === 0) show(lastRound(), view.staged && from === 0 ? 0 : null, {keepFocus: view.pinned});
  else { paintFuture(); paintTransport(); }
  growFolds(from);
}

// Whether the rounds on show are the first ones of these.
function isBeginningOf(rounds) {
  return store.rounds.length <= rounds.length && store.rounds.every(({raw}, at) =>
    raw.context_length === rounds[at].context_length && raw.emitted.join() === rounds[at].emitted.join());
}

// The whole run again: what is new is added; if the rounds on show are not its beginning, all is redrawn.
function receiveLoad(message) {
  const rounds = message.trace.rounds || (message.trace.rounds = []);
  const known = store.rounds.length, sameRun = message.run && message.run === store.run;
  if (sameRun && known && isBeginningOf(rounds)) {
    const added = rounds.slice(known);
    store.incomplete = false;
    store.trace.warnings = message.trace.warnings;
    refresh(message);
    if (added.length) grow(added, message.trace.pieces); else growFolds(known);
    store.trace = message.trace;
    pieces = store.trace.pieces ||= {};
    paintEnd();
    element.dataset.ready = String(store.rounds.length);
    return;
  }
  const place = sameRun && known && !view.follow ? {round: view.round, pin: view.pinned ? keyOf(view.focus) : null} : null;
  setPlaying(false);
  measureUnit(ui.root);
  loadStore(message);
  refresh(message);
  fill(element, {'data-ready': ''}, []);
  Object.assign(view, {round: 0, step: null, focus: null, pinned: false, hover: null, follow: store.live});
  if (!sameRun) view.guesses.clear();
  selectedNode = null; litNode = null; currentNode = null; sourceNodes = [];
  const start = message.start;
  if (start?.steps) {
    view.staged = ui.staged.checked = true;
    ui.root.classList.add('staged');
  }
  buildStrip(() => {
    if (store.rounds.length) {
      const first = store.rounds.find((round) => round.items.some((item) => item.state === 'rejected'));
      const round = place ? place.round : start ? start.round : view.staged ? 0 : lastRound();
      show(round, view.staged ? (place ? restOf(Math.min(round, lastRound())) : 0) : null, {scroll: store.live || Boolean(place || start)});
      if (place?.pin && itemOfKey(place.pin)) select(itemOfKey(place.pin));
      else if (first && !place && !view.staged && !store.live) select(first.items.find((item) => item.state === 'rejected'), {pin: false});
      restoreLink();
    } else paintEmpty();
    rebuildFolds();
    element.dataset.ready = String(store.rounds.length);
  });
}

/* Rounds that are known already are dropped. After a gap nothing is added: the text would be wrong;
   the whole run comes when it ends. */
function receiveAppend(message) {
  if (message.run !== store.run) return;
  const known = store.rounds.length, fresh = (message.rounds || []).filter((round) => (round.index ?? 0) >= known);
  const contiguous = fresh.every((round, at) => (round.index ?? 0) === known + at);
  if (!contiguous) store.incomplete = true;
  refresh({...message, live: store.live && !message.done});
  if (contiguous && fresh.length) grow(fresh, message.pieces);
  else growFolds(known);
  paintEnd();
  element.dataset.ready = String(store.rounds.length);
}

function receive() {
  if (!props.value) { if (!store.rounds.length) paintEmpty(); return; }
  const message = JSON.parse(props.value);
  if (message.op === 'load') receiveLoad(message);
  else if (message.op === 'append') receiveAppend(message);
  else if (message.op === 'clear') receiveLoad({trace: emptyStore().trace});
}

buildLayout();
/* For other figures on the page: p and q at the token on show, its likeliest tokens and all the
   others as one; null where nothing was drafted. */
element.pinnedLaws = () => {
  const data = view.focus && chartData(view.focus, 'done');
  if (!data?.drafted) return null;
  const rows = chosenRows(data, false), rest = (key) => Math.max(0, 1 - rows.reduce((sum, row) => sum + row[key], 0));
  return {p: [...rows.map((row) => row.p), rest('p')], q: [...rows.map((row) => row.q), rest('q')], tokens: [...rows.map((row) => tokenName(row.token, view.focus.before, 12)), '…']};
};
// The run on show, for a panel that looks for what slows it down; null before there is one.
element.wholeTrace = () => (store.trace.spec.method ? store.trace : null);
// Only a reader's own scrolling ends the following of a live run; a new text scrolls by itself.
let gestureAt = -Infinity;
for (const gesture of ['wheel', 'touchmove', 'pointerdown']) {
  ui.strip.addEventListener(gesture, () => { gestureAt = performance.now(); }, {passive: true});
}
ui.strip.addEventListener('scroll', () => {
  if (!store.live || performance.now() - gestureAt > 600) return;
  view.follow = ui.strip.scrollTop + ui.strip.clientHeight > ui.strip.scrollHeight - 60;
}, {passive: true});

let seenWidth = 0;
new ResizeObserver(() => {
  const width = ui.card.clientWidth;
  if (!width || Math.abs(width - seenWidth) < 2) return;
  seenWidth = width;
  measureUnit(ui.root);
  if (store.rounds.length && view.focus) { drawCard(); updateFolds(); }
}).observe(ui.card);

if (!props.embedded && new URLSearchParams(location.search).get('guess') === '1') {
  view.guessing = view.staged = ui.guessing.checked = ui.staged.checked = true;
  ui.root.classList.add('staged');
}
watch('value', receive);
receive();
