// The text strip: the prompt, then one span per round. Rounds are toggled, never single tokens.
const ROUNDS_PER_CHUNK = 40;
const FOLDED_PROMPT = 24;
let chunks = [], roundNodes = [], tokenNodes = new Map(), buildTicket = 0;

const EMITTED = new Set(['accepted', 'corrected', 'bonus', 'plain']);
const tokenClass = (item, phase = 'done') =>
  phase === 'done'
    ? `tok ${item.state}${item.cut ? ' cut' : ''}${item.small ? ' sib' : ''}`
    : `tok ${phase === 'hidden' ? 'unseen' : 'drafted'}${item.small ? ' sib' : ''}`;

function paintToken(node, runs) {
  if (runs[0].mark !== 'space' || runs[0].text !== '·') { paintRuns(node, runs); return; }
  node.dataset.sp = '';
  if (runs.length > 1) paintRuns(node, runs.slice(1));
}

function describe(item) {
  const where = `${item.name}, ${label(`state_${item.state}`)}, ${store.rounds[item.round].title}`;
  return item.flip ? `${where}, ${label('aria_accept', {a: percent(item.flip.accept_prob)})}` : where;
}

function tokenNode(item) {
  const drafter = drafterOf(item);
  const node = make('span', {
    class: tokenClass(item), role: 'option', 'data-k': keyOf(item), 'aria-label': describe(item),
    'data-drafter': drafter, title: drafter && drafterText(drafter),
  });
  paintToken(node, item.runs);
  tokenNodes.set(keyOf(item), node);
  return node;
}

// A chain shows every draft token; a tree the tested ones, siblings small before the accepted one.
function stripItems(round) {
  if (round.chain) return [...round.items, round.next];
  const order = new Map(round.flips.map((flip, at) => [flip.node, at]));
  const tested = round.items.filter((item) => item.flip || item.state === 'accepted');
  tested.sort((a, b) => a.depth - b.depth || (order.get(a.node) ?? 1e9) - (order.get(b.node) ?? 1e9));
  for (const item of tested) item.small = item.state === 'rejected';
  return [...tested, round.next];
}

function roundNode(round) {
  round.title = label('round_n', {n: round.index + 1});
  const node = make('span', {class: 'rnd', role: 'group', 'data-r': round.index, 'aria-label': round.title});
  node.append(make('span', {class: 'rn', 'data-go': round.index, 'aria-hidden': 'true'}, String(round.index + 1)));
  round.shown = stripItems(round);
  const hidden = round.size + 1 - round.shown.length;
  for (const item of round.shown) {
    if (item.node === 'next' && hidden > 0) {
      node.append(make('span', {class: 'pill', 'data-do': 'open-tree', title: label('tree')}, label('more_untested', {n: hidden})));
    }
    node.append(tokenNode(item));
    const breaks = EMITTED.has(item.state) && !item.cut && item.runs.some((run) => run.mark === 'space' && run.text.includes('↵'));
    if (breaks) node.append(make('br'));
  }
  for (const fact of round.evidence) {
    const none = fact.kind === 'draft_length' && !fact.value;
    if (none) node.append(make('span', {class: 'note'}, label('evidence_draft_none')));
    if (fact.kind === 'no_match' || fact.kind === 'stopped_early') node.append(make('span', {class: 'note'}, label(`evidence_${fact.kind}`)));
  }
  return node;
}

function promptNode() {
  const items = store.promptItems;
  const box = make('div', {class: 'prompt', role: 'presentation'});
  items.forEach((item, at) => {
    const node = make('span', {class: 'tok prompt', 'data-pos': item.position});
    paintToken(node, item.runs);
    const inside = items.length > FOLDED_PROMPT + 8 && at >= FOLDED_PROMPT / 2 && at < items.length - FOLDED_PROMPT / 2;
    if (inside) node.classList.add('inner');
    if (inside && at === FOLDED_PROMPT / 2) {
      const text = label('prompt_more', {n: items.length - FOLDED_PROMPT});
      box.append(make('button', {type: 'button', class: 'unfold', 'data-do': 'unfold', 'aria-expanded': 'false'}, text));
    }
    box.append(node);
    if (item.runs.some((run) => run.mark === 'space' && run.text.includes('↵'))) box.append(make('br', {class: inside ? 'inner' : null}));
  });
  return box;
}

function appendToStrip(from, to) {
  for (let index = from; index < to; index += 1) {
    let chunk = chunks[chunks.length - 1];
    if (!chunk || index - chunk.from >= ROUNDS_PER_CHUNK) {
      chunk = {from: index, to: index, node: make('div', {class: 'chunk', role: 'presentation'}), state: 'past'};
      chunks.push(chunk);
      ui.rounds.append(chunk.node);
    }
    roundNodes[index] = roundNode(store.rounds[index]);
    chunk.node.append(roundNodes[index]);
    chunk.to = index + 1;
  }
}

/* Build the strip in slices so that a long trace never blocks the page; `then` runs at the end. */
function buildStrip(then) {
  const ticket = ++buildTicket, started = performance.now();
  chunks = []; roundNodes = []; tokenNodes = new Map();
  ui.rounds.replaceChildren();
  ui.prompt.replaceChildren(promptNode());
  let budget = 40; // the first paint comes soon, the rest in longer slices
  const slice = () => {
    if (ticket !== buildTicket) return;
    const until = performance.now() + budget;
    let at = roundNodes.length;
    budget = 150;
    do {
      const to = Math.min(store.rounds.length, at + ROUNDS_PER_CHUNK);
      appendToStrip(at, to);
      at = to;
    } while (at < store.rounds.length && performance.now() < until);
    if (at < store.rounds.length) { setTimeout(slice); return; }
    element.dataset.buildMs = (performance.now() - started).toFixed(1);
    then();
  };
  slice();
}

function paintFuture() {
  for (const chunk of chunks) {
    const state = chunk.from > view.round ? 'future' : chunk.to <= view.round + 1 ? 'past' : 'mixed';
    if (state !== chunk.state || state === 'mixed') {
      chunk.node.classList.toggle('future', state === 'future');
      for (let index = chunk.from; index < chunk.to; index += 1) {
        roundNodes[index].classList.toggle('future', state === 'mixed' && index > view.round);
      }
    }
    chunk.state = state;
  }
}

// Draw a round's tokens as far as the step allows.
function paintRoundTokens(index) {
  const round = store.rounds[index];
  if (!round?.shown) return;
  for (const item of round.shown) {
    const node = tokenNodes.get(keyOf(item)), phase = phaseOf(item);
    const wanted = tokenClass(item, phase);
    if (node.dataset.base !== wanted) {
      const flipped = node.dataset.base?.includes('drafted') && phase === 'done';
      node.dataset.base = wanted;
      node.className = wanted;
      if (flipped && !reducedMotion()) {
        node.animate([{transform: 'rotateX(80deg)'}, {transform: 'none'}], {duration: 260 / view.speed, easing: 'ease-out'});
      }
    }
    node.classList.toggle('asking', phase === 'verify' && view.step === revealStep(item));
  }
}

function scrollToRound(index) {
  const node = roundNodes[index], box = ui.strip;
  if (!node) return;
  const top = node.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop;
  if (top > box.scrollTop + 8 && top < box.scrollTop + box.clientHeight * 0.75) return;
  box.scrollTop = Math.max(0, top - box.clientHeight / 2);
}
