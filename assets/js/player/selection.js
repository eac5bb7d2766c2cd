// Hover previews, click pins; the same token lights up wherever it is drawn.
let selectedNode = null, litNode = null, currentNode = null;

// The round whose tree, cache, tape and timeline are drawn: that of the focused token.
const detailRound = () => view.focus?.round ?? view.round;

function paintSelection() {
  const node = view.focus && tokenNodes.get(keyOf(view.focus));
  if (node && node !== selectedNode) {
    selectedNode?.removeAttribute('aria-selected');
    selectedNode?.removeAttribute('tabindex');
    fill(node, {'aria-selected': 'true', tabindex: 0}, []);
    selectedNode = node;
  }
  ui.root.classList.toggle('pinned', view.pinned);
  const round = roundNodes[detailRound()];
  if (round !== currentNode) {
    currentNode?.classList.remove('cur');
    round?.classList.add('cur');
    currentNode = round;
  }
  paintLinks();
}

// Light the shown token in the strip and in every open figure.
function paintLinks() {
  const item = shownItem(), key = item && keyOf(item);
  const node = view.hover ? tokenNodes.get(key) : null;
  if (litNode !== node) { litNode?.classList.remove('lit'); node?.classList.add('lit'); litNode = node; }
  for (const old of ui.folds.querySelectorAll('.lit')) old.classList.remove('lit');
  if (item) for (const twin of ui.folds.querySelectorAll(`[data-k="${key}"]`)) twin.classList.add('lit');
  lightSource(item);
  lightTree();
}

let sourceNodes = [];
function lightSource(item) {
  for (const node of sourceNodes) node.classList.remove('source');
  sourceNodes = [];
  if (!item || item.node === 'next') return;
  const fact = factFor(store.rounds[item.round], 'copied_from', item.node);
  if (!fact) return;
  const stop = Math.min(fact.stop, store.rounds[item.round].raw.context_length);
  for (let position = Math.max(0, fact.start || 0); position < stop; position += 1) {
    const node = nodeAtPosition(position);
    if (node) { node.classList.add('source'); sourceNodes.push(node); }
  }
}

function nodeAtPosition(position) {
  const promptLength = store.promptItems.length;
  if (position < promptLength) return ui.prompt.querySelector(`[data-pos="${position}"]`);
  let low = 0, high = lastRound();
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (store.rounds[middle].raw.context_length <= position) low = middle; else high = middle - 1;
  }
  const round = store.rounds[low], at = position - round.raw.context_length;
  const node = at < round.accepted.length ? round.accepted[at] : 'next';
  return tokenNodes.get(`${low}:${node}`);
}

function itemOfKey(key) {
  const [round, node] = key.split(':');
  return itemAt(+round, node === 'next' ? node : +node);
}

function preview(item) {
  if (view.hover === item) return;
  view.hover = item;
  paintLinks();
  drawCard();
}

function select(item, {pin = true, move = false} = {}) {
  if (!item || phaseOf(item) === 'hidden') return;
  const moved = detailRound() !== item.round;
  view.focus = item;
  view.hover = null;
  view.pinned = pin;
  paintSelection();
  drawCard();
  if (moved) updateFolds();
  if (move) {
    const node = tokenNodes.get(keyOf(item));
    node?.focus({preventScroll: true});
    scrollToRound(item.round);
  }
  if (pin) writeLink();
}

function unpin() {
  view.pinned = false;
  focusOnStep();
  paintSelection();
  drawCard();
  updateFolds();
  writeLink();
}

// The neighbour of the focused token in reading order, by `step` tokens.
function neighbour(step) {
  let round = detailRound(), items = store.rounds[round].shown;
  let at = items.indexOf(view.focus) + step;
  if (at < 0) {
    if (round === 0) return items[0];
    items = store.rounds[round - 1].shown;
    return items[items.length - 1];
  }
  if (at >= items.length) return round >= view.round ? items[items.length - 1] : store.rounds[round + 1].shown[0];
  return items[at];
}

// The address names the pinned token, so that a link opens on it.
function writeLink() {
  if (props.embedded) return;
  const url = new URL(location.href);
  if (view.pinned) {
    url.searchParams.set('round', view.focus.round);
    url.searchParams.set('node', view.focus.node);
  } else {
    url.searchParams.delete('round');
    url.searchParams.delete('node');
  }
  history.replaceState(history.state, '', url);
  if (window.parent !== window) {
    window.parent.postMessage({queryString: url.searchParams.toString(), hash: url.hash}, 'https://huggingface.co');
  }
}

/* The link the page was opened with: every run that is shown opens on it until the reader acts or a
   run is live, since the page first paints its default and then the run that the link names. */
let link = props.embedded ? null : readLink(new URLSearchParams(location.search));

function readLink(query) {
  if (!/^[0-9]{1,6}$/.test(query.get('round') || '')) return null;
  const node = query.get('node') ?? 'next';
  return {round: +query.get('round'), node: /^[0-9]{1,4}$/.test(node) ? +node : 'next'};
}

function forgetLink() { link = null; }
for (const kind of ['pointerdown', 'keydown', 'wheel']) element.addEventListener(kind, forgetLink, {capture: true, once: true, passive: true});

function restoreLink() {
  if (store.live) forgetLink();
  const item = link && itemAt(link.round, link.node);
  if (item) { select(item); scrollToRound(link.round); }
}
