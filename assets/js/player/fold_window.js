// The window that rides in a pass (Lookahead): levels of guesses, what is judged, and who sees whom.
const windowOf = (round) => round.evidence.find((fact) => fact.kind === 'window' && fact.tokens?.length);

// Whether a node comes from the pool in a round that a draft model drafted for as well.
const fromPool = (round, node) => Boolean(round.evidence.find((fact) => fact.kind === 'pool_hit' && fact.values?.length)?.values[node]);

/* Every token of the pass, numbered as the target reads them: the pending one, the nodes, the window's
   cells. A cell's place is level * columns + column; offset counts from the pending token. */
function passMembers(round) {
  const fact = windowOf(round), columns = Math.round(fact.value), first = round.size + 1, carries = [];
  const members = [{id: 0, parent: null, offset: 0, level: 0, column: 0, kind: 'pending', name: pendingName(round)}];
  for (const item of round.items) members.push({id: members.length, parent: item.parent + 1, offset: item.depth, kind: 'guess', name: item.name, item});
  fact.tokens.forEach((token, at) => {
    const parent = fact.parents[at], fed = decodeToken(parent < 0 ? round.startCarry : carries[parent], token);
    const level = Math.floor((at + 1) / columns), column = (at + 1) % columns;
    carries.push(fed.carry);
    members.push({id: first + at, parent: parent < 0 ? 0 : first + parent, offset: level + column, level, column, kind: 'cell', name: fed.name});
  });
  return {members, columns, levels: Math.floor(fact.tokens.length / columns) + 1};
}

// From a token of the pass up to the pending one.
function passLineage(members, id) {
  const path = [id];
  for (let at = members[id].parent; at !== null; at = members[at].parent) path.push(at);
  return path;
}

const passState = (one) => (one.item ? (phaseOf(one.item) === 'done' ? one.item.state : 'drafted') : one.kind);

// One line per branch of what is judged; a shared beginning stands in the line of its first branch.
function guessLines(round) {
  const lines = new Map();
  let next = 0;
  const place = (node) => {
    const children = round.items.filter((item) => item.parent === node).map((item) => item.node);
    lines.set(node, next);
    children.forEach((child, at) => { if (at) next += 1; place(child); });
  };
  if (round.size) place(-1);
  return {lines, count: round.size ? next + 1 : 0};
}

function windowBox(one, x, y, {unit, boxWidth, boxHeight, letters}) {
  const state = passState(one), radius = one.kind === 'pending' || state === 'accepted' ? boxHeight / 2 : state === 'rejected' ? 0 : 4;
  return makeSvg('g', {class: `node ${state}`, 'data-pass': one.id, 'data-k': one.item ? keyOf(one.item) : null, tabindex: one.id ? -1 : 0, role: 'img', 'aria-label': one.name},
    makeSvg('rect', {x, y, width: boxWidth, height: boxHeight, rx: radius}),
    makeSvg('text', {class: 'node-name', x: x + boxWidth / 2, y: y + unit * 1.15, 'text-anchor': 'middle'}, fitText(one.name, letters)));
}

// The grid: what stands in one column is meant for one place of the text.
function windowDrawing(round, {members, levels}, room) {
  const unit = unitPx * 0.8, left = unit * 4.6, reach = 1 + Math.max(...members.map((one) => one.offset));
  const stepX = Math.max(unit * 4.2, Math.min(unit * 8, (room - left - 6) / reach)), stepY = unit * 2.15, {lines, count} = guessLines(round);
  const geometry = {unit, boxWidth: stepX - unit * 0.9, boxHeight: unit * 1.7, letters: Math.max(2, Math.floor((stepX - unit * 1.2) / (unit * 0.64)))};
  const top = unit * 1.6, below = top + levels * stepY + unit * 0.9, width = left + reach * stepX, height = below + count * stepY + 4;
  const at = (one) => ({x: left + one.offset * stepX, y: one.item ? below + lines.get(one.item.node) * stepY : top + one.level * stepY});
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'window-svg', role: 'group', 'aria-label': label('window_aria', {levels, n: round.size})});
  const text = (words, x, y, anchor = 'start') => makeSvg('text', {class: 'axis', x, y, 'text-anchor': anchor, 'font-size': unit * 0.85}, words);
  for (let offset = 0; offset < reach; offset += 1) svg.append(text(offset ? `+${offset}` : label('pending_short'), left + offset * stepX + geometry.boxWidth / 2, unit, 'middle'));
  for (let level = 0; level < levels; level += 1) svg.append(text(label('level_n', {n: level}), 0, top + level * stepY + unit * 1.15));
  if (count) svg.append(text(label('window_judged'), 0, below + unit * 1.15));
  for (const one of members) {
    if (one.parent === null || (one.item && one.parent === 0)) continue;
    svg.append(makeSvg('path', {class: 'edge', 'data-edge': one.id, d: edgePath(at(members[one.parent]), at(one), geometry)}));
  }
  for (const one of members) svg.append(windowBox(one, at(one).x, at(one).y, geometry));
  return svg;
}

// Runs of the pass that are named beside the mask: [name, first, length].
function passGroups(round, {columns, levels}) {
  const groups = [[label('pending_short'), 0, 1]];
  if (round.size) groups.push([label('window_judged'), 1, round.size]);
  for (let level = 0, at = round.size + 1; level < levels; level += 1) {
    const length = level ? columns : columns - 1;
    if (length) groups.push([label('level_n', {n: level}), at, length]);
    at += length;
  }
  return groups;
}

function passMask(round, pass, room) {
  const {members} = pass, count = members.length, unit = unitPx * 0.75, names = unit * 7.4, past = unit * 2.6, left = names + past, top = unit * 4.6;
  const cell = Math.max(unit * 0.85, Math.min(unit * 1.4, (room - left - 4) / count)), size = count * cell, width = left + size + unit * 2.4, height = top + size + 3;
  const grid = `sp-grid-${(hatchCount += 1)}`, pattern = makeSvg('pattern', {id: grid, x: left, y: top, width: cell, height: cell, patternUnits: 'userSpaceOnUse'},
    makeSvg('rect', {class: 'cell off', x: 0.5, y: 0.5, width: cell - 1, height: cell - 1}));
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'mask-svg pass-mask', role: 'img', 'aria-label': label('mask_aria', {n: count})}, makeSvg('defs', {}, pattern));
  svg.append(makeSvg('rect', {x: left, y: top, width: size, height: size, fill: `url(#${grid})`}),
    makeSvg('text', {x: names + past / 2, y: top - unit * 0.5, 'text-anchor': 'middle', class: 'axis', 'font-size': unit * 0.9}, label('prefix_short')));
  for (const one of members) {
    const y = top + one.id * cell, row = makeSvg('g', {class: `mask-row ${passState(one)}`, 'data-pass': one.id, 'data-k': one.item ? keyOf(one.item) : null});
    row.append(makeSvg('title', {}, passSentence(round, members, one.id)), makeSvg('rect', {class: 'mask-back', x: 0, y, width, height: cell}),
      makeSvg('text', {x: names - 5, y: y + cell * 0.78, 'text-anchor': 'end', class: 'name', 'font-size': Math.min(unit, cell * 0.92)}, fitText(one.name, 9)),
      makeSvg('rect', {class: 'cell on prefix', x: names, y: y + 0.5, width: past - 3, height: cell - 1}));
    for (const seen of passLineage(members, one.id)) {
      row.append(makeSvg('rect', {class: 'cell on', 'data-col': seen, x: left + seen * cell + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1}));
    }
    svg.append(row);
  }
  for (const [name, first, length] of passGroups(round, pass)) {
    const edge = first * cell, x = left + edge + Math.min(length, 2) * cell * 0.5;
    svg.append(makeSvg('text', {class: 'mask-head', transform: `rotate(-50 ${x} ${top - 4})`, x, y: top - 4, 'font-size': unit * 0.85}, fitText(name, 9)),
      makeSvg('path', {class: 'mask-rule', d: `M${left} ${top + edge}h${size}M${left + edge} ${top}v${size}`}));
  }
  return svg;
}

// What a token of the pass looks at, in words.
function passSentence(round, members, id) {
  const path = passLineage(members, id).reverse().map((at) => (at ? members[at].name : label('pending_token')));
  return label('mask_row', {name: path[path.length - 1], path: path.join(' → '), prefix: round.raw.context_length - 1});
}

function passPlace(round, one) {
  const position = round.raw.context_length - 1 + one.offset;
  if (one.kind === 'cell') return label('window_cell', {level: one.level, column: one.column, position});
  return label(one.kind === 'guess' ? 'window_guess' : 'window_pending', {position});
}

function lightPass(body, round, members, id) {
  const seen = new Set(id === null ? [] : passLineage(members, id));
  for (const mark of body.querySelectorAll('[data-pass]')) {
    const at = +mark.dataset.pass;
    mark.classList.toggle('seen', seen.has(at) && at !== id);
    mark.classList.toggle('self', at === id);
  }
  for (const edge of body.querySelectorAll('.edge')) edge.classList.toggle('seen', seen.has(+edge.dataset.edge));
  body.querySelector('.pass-line').replaceChildren(...(id === null ? [make('span', {class: 'hint'}, label('window_help'))]
    : [make('span', {}, passPlace(round, members[id])), make('span', {class: 'hint'}, passSentence(round, members, id))]));
}

// Arrows walk the tokens in the order in which the pass reads them.
function walkPass(body, members, node, key) {
  const id = +node.dataset.pass, last = members.length - 1;
  const next = {ArrowRight: Math.min(last, id + 1), ArrowDown: Math.min(last, id + 1), ArrowLeft: Math.max(0, id - 1), ArrowUp: Math.max(0, id - 1), Home: 0, End: last}[key];
  if (next === undefined) return false;
  for (const one of body.querySelectorAll('.window-svg .node')) one.setAttribute('tabindex', +one.dataset.pass === next ? 0 : -1);
  body.querySelector(`.window-svg [data-pass="${next}"]`).focus({preventScroll: true});
  return true;
}

fold('window', {
  hides: () => !store.rounds.some(windowOf),
  grow() {}, // new rounds change nothing here until one of them is on show
  update(body) {
    const round = store.rounds[detailRound()];
    if (!windowOf(round)) { body.replaceChildren(make('p', {class: 'hint'}, label('window_none'))); return; }
    const pass = passMembers(round), {members, columns, levels} = pass, width = widthOf(body, 800), hit = round.evidence.find((fact) => fact.kind === 'pool_hit');
    const counts = {rows: members.length, nodes: round.size, cells: members.length - round.size - 1, levels, columns};
    const box = make('div', {class: 'pass'},
      make('p', {}, label('join', {first: label('window_text', counts), second: hit ? label('window_hits', {n: Math.round(hit.value || 0)}) : label('window_no_hits')})),
      make('div', {class: 'pass-line', 'aria-live': 'polite'}),
      make('figure', {}, make('div', {class: 'scroll-x'}, windowDrawing(round, pass, width)), make('figcaption', {}, label('window_caption'))),
      make('figure', {}, make('div', {class: 'scroll-x', tabindex: 0}, passMask(round, pass, width)), make('figcaption', {}, label('window_mask_caption'))));
    const light = (id) => lightPass(box, round, members, id), idOf = (event) => event.target.closest('[data-pass]');
    box.addEventListener('pointerover', (event) => light(idOf(event) ? +idOf(event).dataset.pass : null));
    box.addEventListener('pointerleave', () => light(null));
    box.addEventListener('focusin', (event) => { if (idOf(event)) light(+idOf(event).dataset.pass); });
    box.addEventListener('keydown', (event) => {
      if (!idOf(event) || event.ctrlKey || event.metaKey || event.altKey || !walkPass(box, members, idOf(event), event.key)) return;
      event.preventDefault();
      event.stopPropagation();
    });
    body.replaceChildren(box);
    light(null);
  },
});
