// The draft tree with the accepted path, and the attention mask that lets one pass score it.
const MAX_DRAWN_NODES = 96;

// Columns by depth, leaves on successive lines, a parent in the middle of its children.
function layoutTree(round) {
  const children = new Map([[-1, []]]), places = new Map();
  round.tree.parents.forEach((parent, node) => { children.set(node, []); children.get(parent).push(node); });
  let line = 0;
  const place = (node, depth) => {
    const below = children.get(node).map((child) => place(child, depth + 1));
    const y = below.length ? (below[0] + below[below.length - 1]) / 2 : line++;
    places.set(node, {x: depth, y});
    return y;
  };
  place(-1, 0);
  return {places, lines: Math.max(1, line), depth: Math.max(0, ...round.items.map((item) => item.depth))};
}

function ancestors(round, node) {
  const path = [node];
  while (path[path.length - 1] >= 0) path.push(round.tree.parents[path[path.length - 1]]);
  return path;
}

function treeDrawing(round) {
  const unit = unitPx * 0.85, {places, lines, depth} = layoutTree(round);
  const boxWidth = unit * 5.6, stepX = boxWidth + unit * 1.8, stepY = unit * 2.3, boxHeight = unit * 1.7, pad = 4;
  const width = depth * stepX + boxWidth + 2 * pad, height = lines * stepY + 2 * pad;
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'tree-svg', role: 'img', 'aria-label': label('tree_aria', {n: round.size, accepted: round.accepted.length})});
  const at = (node) => ({x: pad + places.get(node).x * stepX, y: pad + places.get(node).y * stepY});
  const path = new Set(round.accepted);
  round.items.forEach((item) => {
    const from = at(item.parent), to = at(item.node), y0 = from.y + boxHeight / 2, y1 = to.y + boxHeight / 2, middle = (from.x + boxWidth + to.x) / 2;
    svg.append(makeSvg('path', {class: `edge${path.has(item.node) && phaseOf(item) === 'done' ? ' on-path' : ''}`, d: `M${from.x + boxWidth} ${y0}C${middle} ${y0} ${middle} ${y1} ${to.x} ${y1}`}));
  });
  const root = at(-1);
  svg.append(treeNode({text: label('pending_token'), kind: 'pending', x: root.x, y: root.y, boxWidth, boxHeight, node: -1}));
  for (const item of round.items) {
    const kind = phaseOf(item) === 'done' ? item.state : 'drafted';
    svg.append(treeNode({text: shorten(item.name, 8), full: describe(item), kind, ...at(item.node), boxWidth, boxHeight, key: keyOf(item), node: item.node}));
  }
  return svg;
}

function treeNode({text, full, kind, x, y, boxWidth, boxHeight, key, node}) {
  const radius = kind === 'accepted' || kind === 'pending' ? boxHeight / 2 : kind === 'rejected' ? 0 : 5;
  return makeSvg('g', {class: `node ${kind}`, 'data-k': key, 'data-node': node},
    makeSvg('title', {}, full || text), makeSvg('rect', {x, y, width: boxWidth, height: boxHeight, rx: radius}),
    makeSvg('text', {x: x + boxWidth / 2, y: y + boxHeight * 0.68, 'text-anchor': 'middle'}, text));
}

function maskDrawing(round) {
  const count = round.size + 1, unit = unitPx * 0.75;
  const cell = Math.max(7, Math.min(unit * 1.5, 340 / count)), names = unit * 5, past = cell * 2.4, pad = 2;
  const width = names + past + count * cell + 2 * pad, top = unit * 1.6, height = top + count * cell + 2 * pad;
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': Math.min(unit, cell * 0.9), class: 'mask-svg', role: 'img', 'aria-label': label('mask_aria', {n: count})});
  svg.append(makeSvg('text', {x: names + past / 2, y: unit, 'text-anchor': 'middle', class: 'axis', 'font-size': unit * 0.9}, label('context_short')));
  for (let row = 0; row < count; row += 1) {
    const item = row && round.items[row - 1], seen = new Set(ancestors(round, row - 1)), y = top + row * cell;
    const group = makeSvg('g', {class: `mask-row ${item ? item.state : 'pending'}`, 'data-k': item ? keyOf(item) : null, 'data-node': row - 1});
    group.append(makeSvg('rect', {class: 'mask-back', x: 0, y, width, height: cell}),
      makeSvg('text', {x: names - 4, y: y + cell * 0.76, 'text-anchor': 'end', class: 'name'}, item ? shorten(item.name, 7) : label('pending_short')),
      makeSvg('rect', {class: 'cell on', x: names + 1, y: y + 1, width: past - 4, height: cell - 2}));
    for (let column = 0; column < count; column += 1) {
      group.append(makeSvg('rect', {class: `cell ${seen.has(column - 1) ? 'on' : 'off'}`, x: names + past + column * cell + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1}));
    }
    svg.append(group);
  }
  return svg;
}

fold('tree', {
  update(body) {
    const round = store.rounds[detailRound()];
    if (!round.size) { body.replaceChildren(make('p', {class: 'hint'}, label('tree_empty'))); return; }
    if (round.size > MAX_DRAWN_NODES) { body.replaceChildren(make('p', {class: 'hint'}, label('tree_big', {n: round.size, most: MAX_DRAWN_NODES}))); return; }
    body.replaceChildren(
      make('div', {class: 'tree-pair'},
        make('figure', {}, make('div', {class: 'scroll-x', tabindex: 0}, treeDrawing(round)), make('figcaption', {}, label('tree_caption'))),
        make('figure', {}, make('div', {class: 'scroll-x', tabindex: 0}, maskDrawing(round)), make('figcaption', {}, label('mask_caption')))));
  },
});

// Hovering a node lights its row of the mask and what it may look at.
function lightMask(node) {
  const round = store.rounds[detailRound()];
  const seen = node === null ? null : new Set(ancestors(round, node));
  for (const mark of ui.folds.querySelectorAll('.fold-body.tree [data-node]')) {
    mark.classList.toggle('seen', Boolean(seen?.has(+mark.dataset.node)));
    mark.classList.toggle('self', node !== null && +mark.dataset.node === node);
  }
}
