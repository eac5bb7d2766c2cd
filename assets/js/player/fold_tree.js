// The fold-out with the draft tree, how it grew, its attention mask, and what is known of one node.
const MASK_SHARE = 0.42; // of the width, where both figures stand side by side
const BESIDE_PX = 620;
const MOST_BESIDE = 24; // nodes; a larger tree needs the whole width
const MOST_DRAWN = 160;

// The step of the round on show, where the reader walks through it.
const treeStep = (round) => (round.index === view.round ? currentStep() : null);

// What has happened at a step of the growth, in a sentence.
function growSentence(round, step) {
  const grown = round.grown, members = [...round.items, ...grown.candidates];
  if (step.grow === 'rerank') {
    const values = {n: round.size, dropped: grown.candidates.length + grown.hidden, total: members.length + grown.hidden};
    const left = grown.hidden ? label('grow_hidden', {n: grown.hidden}) : '';
    return [label('grow_rerank', values), left].filter(Boolean).reduce((first, second) => label('join', {first, second}));
  }
  if (step.grow === 1) return label('grow_first', {n: members.filter((one) => one.depth === 1).length});
  const fed = [...grown.expanded].filter((id) => memberOf(round, id).depth === step.grow - 1).length;
  return label(grown.hidden ? 'grow_level_part' : 'grow_level', {level: step.grow, fed, n: members.filter((one) => one.depth === step.grow).length});
}

// Buttons that lead to the levels, to the choice of the best, and to what the target made of it.
function growButtons(round, step) {
  const shown = round.steps.findIndex((one) => one === step), last = round.steps.length - 1;
  const button = (at, text, name) => make('button', {type: 'button', class: 'btn small', 'data-do': 'grow', 'data-step': at, 'aria-label': name, 'aria-pressed': String(at === last ? !step?.grow : at === shown)}, text);
  return make('div', {class: 'grow-steps', role: 'group', 'aria-label': label('grow_steps')}, make('span', {class: 'eyebrow'}, label('level_short')),
    growSteps(round).map((one, at) => (one.grow === 'rerank' ? button(at, label('grow_rerank_short')) : button(at, String(one.grow), label('level_n', {n: one.grow})))), button(last, label('grow_judged')));
}

function goToGrowStep(button) {
  const round = detailRound();
  view.staged = ui.staged.checked = true;
  view.pinned = false;
  ui.root.classList.add('staged');
  if (round !== view.round) { const before = view.round; view.round = round; paintRoundTokens(before); }
  show(round, +button.dataset.step, {scroll: false});
  ui.folds.querySelector(`[data-do="grow"][data-step="${button.dataset.step}"]`)?.focus({preventScroll: true});
}

function treeKey(step) {
  const kinds = step?.grow === 'rerank' ? ['kept', 'dropped', 'fed'] : step?.grow ? ['candidate', 'fed'] : ['accepted', 'rejected', 'untested'];
  return make('div', {class: 'legend small'}, kinds.map((kind) => make('span', {class: 'key'},
    makeSvg('svg', {class: 'tree-key', viewBox: '0 0 34 18', 'aria-hidden': 'true'}, makeSvg('g', {class: `node ${kind === 'fed' ? 'candidate fed' : kind}`},
      makeSvg('rect', {x: 2, y: 2, width: 24, height: 14, rx: kind === 'accepted' ? 7 : kind === 'rejected' ? 0 : 4}),
      kind === 'fed' ? makeSvg('path', {class: 'fed-mark', d: 'M27 5l6 4-6 4z'}) : null)), label(`state_${kind}`))));
}

fold('tree', {
  grow() {}, // new rounds change nothing here until one of them is on show
  update(body) {
    const round = store.rounds[detailRound()], step = treeStep(round), held = document.activeElement?.closest?.('.tree-svg .node')?.dataset.node;
    view.treeHover = null;
    if (!round.size) { body.replaceChildren(make('p', {class: 'hint'}, label('tree_empty'))); return; }
    if (round.size > MOST_DRAWN) { body.replaceChildren(make('p', {class: 'hint'}, label('tree_big', {n: round.size, most: MOST_DRAWN}))); return; }
    const width = widthOf(body, 800), grows = Boolean(step?.grow), beside = !grows && width >= BESIDE_PX && round.size <= MOST_BESIDE;
    const mask = grows ? null : maskDrawing(round, beside ? width * MASK_SHARE : width);
    const tree = treeDrawing(round, step, beside ? width - mask.getAttribute('width') - 34 : width);
    const same = body.dataset.round === String(round.index), places = same ? [...body.querySelectorAll('.scroll-x')].map(({scrollLeft, scrollTop}) => [scrollLeft, scrollTop]) : [];
    body.dataset.round = round.index;
    ui.treeLine = make('div', {class: 'node-line', 'aria-live': 'polite'});
    body.replaceChildren(
      ...(round.grown ? [growButtons(round, step), make('p', {class: 'grow-text'}, grows ? growSentence(round, step) : label('grow_done', {n: round.size}))] : []),
      ui.treeLine,
      make('div', {class: `tree-pair${beside ? ' beside' : ''}`},
        make('figure', {class: 'tree-figure'}, make('div', {class: 'scroll-x'}, tree), treeKey(step), make('figcaption', {}, label(grows ? 'grow_caption' : round.chain ? 'chain_caption' : 'tree_caption'))),
        mask && make('figure', {}, make('div', {class: 'scroll-x', tabindex: 0}, mask), make('figcaption', {}, label('mask_caption')))),
      make('p', {class: 'hint'}, label('node_note')));
    body.querySelectorAll('.scroll-x').forEach((box, at) => { if (places[at]) [box.scrollLeft, box.scrollTop] = places[at]; });
    if (!same) centreTree(body, round);
    setTreeStop(held ?? '-1');
    if (held !== undefined) treeNodeAt(held)?.focus({preventScroll: true});
  },
});

// A tree higher than its box opens on the token on show.
function centreTree(body, round) {
  const item = shownItem(), node = treeNodeAt(item?.round === round.index && item.node !== 'next' ? item.node : -1);
  const box = body.querySelector('.tree-figure .scroll-x'), middle = node ? +node.querySelector('rect').getAttribute('y') : 0;
  box.scrollTop = middle - box.clientHeight / 2;
}

const treeNodeAt = (id) => ui.folds.querySelector(`.tree-svg .node[data-node="${id}"]`);

// One tab stop for the whole tree.
function setTreeStop(id) {
  const node = treeNodeAt(id) || treeNodeAt(-1);
  if (!node) return;
  ui.folds.querySelector('.tree-svg .node[tabindex="0"]')?.setAttribute('tabindex', '-1');
  node.setAttribute('tabindex', '0');
}

const UNKNOWN = '–';

/* What is known of a member: its path's text, where it stands, and how likely it is to whom. Always the
   same lines, so that the figures below stay where they are. */
function paintTreeLine(round, id) {
  if (!ui.treeLine?.isConnected) return;
  const prefix = round.raw.context_length - 1, known = (chance) => (chance === undefined ? label('not_recorded') : prob(chance));
  let path = [], facts = [UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN];
  if (id !== null) {
    path = lineage(round, id).reverse().map((at) => (at < 0 ? pendingName(round) : memberOf(round, at).name));
    const one = id < 0 ? null : memberOf(round, id), judged = id >= 0 && id < round.size && phaseOf(one) === 'done';
    facts = [`${prefix} + ${path.length - 1} = ${prefix + path.length - 1}`, one ? known(draftChance(round, id)) : UNKNOWN, one ? known(pathChance(round, id)) : UNKNOWN,
      judged ? (one.flip ? known(targetChance(one)) : label('state_untested')) : UNKNOWN];
  }
  const steps = path.map((name, at) => [at ? make('span', {class: 'node-arrow', 'aria-hidden': 'true'}, '→') : null, make('span', {class: `name${at === path.length - 1 ? ' self' : ''}`}, name)]);
  const line = make('p', {class: 'node-path'}, make('span', {class: 'eyebrow'}, label('node_path_text')), ' ', id === null ? make('span', {class: 'hint'}, label('tree_help')) : steps);
  ui.treeLine.replaceChildren(line, make('dl', {class: 'node-facts'},
    ['position', 'draft', 'path', 'target'].map((name, at) => make('div', {}, make('dt', {}, label(`node_${name}`)), make('dd', {}, facts[at])))));
  line.scrollLeft = line.scrollWidth;
}

/* Light a member, its ancestors and its row of the mask: the hovered one, else the token on show; the
   round's last token is no node, so the one that it follows is lit. */
function lightTree() {
  if (![...openFolds].some((entry) => entry.name === 'tree') || !store.rounds.length) return;
  const round = store.rounds[detailRound()], item = shownItem();
  if (!round.size) return;
  let id = view.treeHover;
  if (id === null && item?.round === round.index) id = item.node === 'next' ? item.parent : item.node;
  const seen = id === null ? null : new Set(lineage(round, id));
  for (const mark of ui.folds.querySelectorAll('.fold-body.tree [data-node]')) {
    const at = +mark.dataset.node;
    mark.classList.toggle('seen', Boolean(seen?.has(at)) && at !== id);
    mark.classList.toggle('self', at === id);
  }
  for (const edge of ui.folds.querySelectorAll('.tree-svg .edge')) edge.classList.toggle('seen', Boolean(seen?.has(+edge.dataset.edge)));
  paintTreeLine(round, id);
}

function hoverTree(id) {
  if (view.treeHover === id) return;
  view.treeHover = id;
  lightTree();
}

// Arrows walk the tree as it is drawn: towards the leaves, back to the parent, along the level.
function treeNeighbour(node, key) {
  const id = +node.dataset.node, round = store.rounds[detailRound()], drawn = [...ui.folds.querySelectorAll('.tree-svg .node')].map((one) => +one.dataset.node);
  if (key === 'ArrowLeft') return id < 0 ? id : memberOf(round, id).parent;
  if (key === 'ArrowRight') return drawn.find((one) => one >= 0 && memberOf(round, one).parent === id) ?? id;
  const {places} = layoutTree(treeMembers(round, Boolean(treeStep(round)?.grow)).filter((one) => drawn.includes(one.id))), here = places.get(id), way = key === 'ArrowDown' ? 1 : -1;
  const level = drawn.filter((one) => places.get(one).x === here.x && (places.get(one).y - here.y) * way > 0);
  level.sort((a, b) => (places.get(a).y - places.get(b).y) * way);
  return level[0] ?? id;
}

function walkTree(node, key) {
  const round = store.rounds[detailRound()];
  if (key === 'Enter' || key === ' ') { const item = round.items[+node.dataset.node]; if (item) select(item); return; }
  const id = key === 'Home' ? -1 : treeNeighbour(node, key), next = treeNodeAt(id);
  setTreeStop(id);
  next?.focus({preventScroll: true});
  next?.scrollIntoView({block: 'nearest', inline: 'nearest'});
}

// A focused node previews its token like a hovered one.
function focusTree(node) {
  const item = store.rounds[detailRound()].items[+node.dataset.node];
  setTreeStop(node.dataset.node);
  if (item && phaseOf(item) !== 'hidden') preview(item); else if (view.hover) preview(null);
  hoverTree(+node.dataset.node);
}
