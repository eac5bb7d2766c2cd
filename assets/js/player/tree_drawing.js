// The draft tree: one column per level, the pending token first.
function treeGeometry(levels, room, grows) {
  const unit = unitPx * 0.8, columns = levels + 1;
  const stepX = Math.max(unit * 3.9, Math.min(unit * (grows ? 9 : 7.4), (room - 10 - unit) / columns));
  const boxWidth = stepX - unit * (stepX < unit * 5 ? 0.8 : 1.5), stacked = grows && boxWidth < unit * 5.4;
  const letters = Math.max(2, Math.floor((boxWidth - (grows && !stacked ? unit * 2 : 0)) / (unit * 0.64)) - 1);
  return {unit, stepX, boxWidth, stacked, letters, boxHeight: unit * (stacked ? 2.5 : 1.75), stepY: unit * (stacked ? 2.8 : grows ? 2 : 2.25), pad: 5, top: unit * 1.5};
}

// Below the name where boxes are narrow, else beside it.
function chanceText(chance, place, {unit, boxWidth, stacked}) {
  const text = chance < 0.0095 ? '<.01' : chance.toFixed(2).replace(/^0/, '');
  const [x, y, anchor] = stacked ? [place.x + boxWidth / 2, place.y + unit * 2.15, 'middle'] : [place.x + boxWidth - unit * 0.4, place.y + unit * 1.18, 'end'];
  return makeSvg('text', {class: 'node-chance', x, y, 'text-anchor': anchor, 'font-size': unit * 0.78}, text);
}

/* What a member looks like: its fate once it is known; while the tree grows, whether it is new, fed to
   the head, or fell out. */
function memberKind(round, one, step) {
  if (step?.grow === 'rerank') return one.item ? 'kept' : 'dropped';
  if (step?.grow || !one.item) return 'candidate';
  return phaseOf(one.item) === 'done' ? one.item.state : 'drafted';
}

// A node is fed to the head at the level after its own.
function isFed(round, one, step) {
  if (!step?.grow) return false;
  const fed = round.grown.expanded.has(one.id);
  return fed && (step.grow === 'rerank' || one.depth < step.grow);
}

function memberNode(round, one, place, geometry, step) {
  const {unit, boxWidth, boxHeight, stacked, letters} = geometry, kind = memberKind(round, one, step), fed = isFed(round, one, step);
  const radius = kind === 'accepted' ? boxHeight / 2 : kind === 'rejected' ? 0 : 5, chance = step?.grow ? pathChance(round, one.id) : undefined;
  const left = chance !== undefined && !stacked, middle = place.x + boxWidth / 2;
  const group = makeSvg('g', {
    class: `node ${kind}${fed ? ' fed' : ''}${step?.grow === one.depth ? ' newest' : ''}`, 'data-node': one.id, 'data-k': one.item ? keyOf(one.item) : null,
    role: 'treeitem', 'aria-level': one.depth + 1, 'aria-label': memberSentence(round, one, kind), tabindex: -1,
  }, makeSvg('title', {}, memberSentence(round, one, kind)), makeSvg('rect', {x: place.x, y: place.y, width: boxWidth, height: boxHeight, rx: radius}),
  makeSvg('text', {class: 'node-name', x: left ? place.x + unit * 0.4 : middle, y: place.y + unit * 1.2, 'text-anchor': left ? 'start' : 'middle'}, fitText(one.name, letters)));
  if (chance !== undefined) group.append(chanceText(chance, place, geometry));
  if (fed) group.append(makeSvg('path', {class: 'fed-mark', d: `M${place.x + boxWidth + 1} ${place.y + boxHeight / 2 - unit * 0.42}l${unit * 0.6} ${unit * 0.42}l${-unit * 0.6} ${unit * 0.42}z`}));
  return group;
}

function memberSentence(round, one, kind) {
  const words = [one.name, label(`state_${kind}`), label('level_n', {n: one.depth})], chance = pathChance(round, one.id);
  if (chance !== undefined) words.push(label('path_chance', {p: prob(chance)}));
  return words.join(', ');
}

function edgePath(from, to, {boxWidth, boxHeight}) {
  const x0 = from.x + boxWidth, y0 = from.y + boxHeight / 2, y1 = to.y + boxHeight / 2, middle = (x0 + to.x) / 2;
  return `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${to.x} ${y1}`;
}

function treeDrawing(round, step, room) {
  const grows = Boolean(step?.grow), shown = treeMembers(round, grows).filter((one) => !(one.depth > step?.grow)), layout = layoutTree(shown);
  const geometry = treeGeometry(grows ? round.grown.levels : layout.levels, room, grows), {unit, stepX, stepY, boxWidth, boxHeight, pad, top} = geometry;
  const width = layout.levels * stepX + boxWidth + 2 * pad + unit * 0.6, height = top + (layout.lines - 1) * stepY + boxHeight + 2 * pad;
  const at = (id) => ({x: pad + layout.places.get(id).x * stepX, y: top + pad + layout.places.get(id).y * stepY});
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'tree-svg', role: 'tree', 'aria-label': label('tree_aria', {n: round.size, accepted: round.accepted.length})});
  for (let level = 0; level <= layout.levels; level += 1) {
    svg.append(makeSvg('text', {class: 'axis', x: pad + level * stepX + boxWidth / 2, y: unit, 'text-anchor': 'middle', 'font-size': unit * 0.85}, level ? String(level) : label('level_short')));
  }
  const path = new Set(round.accepted);
  for (const one of shown) {
    const on = !grows && path.has(one.id) && phaseOf(one.item) === 'done';
    svg.append(makeSvg('path', {class: `edge${on ? ' on-path' : ''}${grows && one.depth === step.grow ? ' newest' : ''}`, 'data-edge': one.id, d: edgePath(at(one.parent), at(one.id), geometry)}));
  }
  const root = at(-1);
  svg.append(makeSvg('g', {class: `node pending${step?.grow ? ' fed' : ''}`, 'data-node': -1, role: 'treeitem', 'aria-level': 1, 'aria-label': label('pending_token'), tabindex: -1},
    makeSvg('title', {}, label('pending_token')), makeSvg('rect', {x: root.x, y: root.y, width: boxWidth, height: boxHeight, rx: boxHeight / 2}),
    makeSvg('text', {class: 'node-name', x: root.x + boxWidth / 2, y: root.y + unit * 1.2, 'text-anchor': 'middle'}, fitText(pendingName(round), geometry.letters))));
  for (const one of shown) svg.append(memberNode(round, one, at(one.id), geometry, step));
  return svg;
}

// The token that every node hangs off: the last one committed before the round.
function pendingName(round) {
  if (round.index) return store.rounds[round.index - 1].next.name;
  const prompt = store.promptItems[store.promptItems.length - 1];
  return prompt ? flatText(prompt.runs) : label('pending_short');
}
