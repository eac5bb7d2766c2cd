// The attention mask of one target pass: who may look at whom, so that branches cannot see each other.
const MOST_HEADS = 18; // with more columns their names would not be legible
const ROW_MARKS = {accepted: '✓', rejected: '✗', untested: '·'};

function maskGeometry(round, room) {
  const count = round.size + 1, unit = unitPx * 0.75, names = unit * 6.4, past = unit * 2.6;
  const cell = Math.max(unit * 0.85, Math.min(unit * 1.55, (room - names - past - 4) / count));
  const headed = count <= MOST_HEADS, top = headed ? unit * 4.2 : unit * 1.7;
  return {count, unit, names, past, cell, headed, top, left: names + past, width: names + past + count * cell + (headed ? unit * 2 : 4), height: top + count * cell + 3};
}

function maskHeads(round, {unit, names, past, cell, headed, top, left, count}) {
  const heads = [makeSvg('text', {x: names + past / 2, y: top - unit * 0.5, 'text-anchor': 'middle', class: 'axis', 'font-size': unit * 0.9}, label('prefix_short'))];
  for (let column = 0; headed && column < count; column += 1) {
    const x = left + (column + 0.6) * cell, y = top - 4, item = column && round.items[column - 1];
    heads.push(makeSvg('text', {class: 'mask-head', 'data-node': column - 1, transform: `rotate(-50 ${x} ${y})`, x, y, 'font-size': unit * 0.85}, item ? fitText(item.name, 6) : label('pending_short')));
  }
  return heads;
}

function maskRow(round, row, {unit, names, past, cell, left, width, top}) {
  const item = row && round.items[row - 1], y = top + row * cell, size = Math.min(unit, cell * 0.92), done = item && phaseOf(item) === 'done';
  const state = done ? item.state : item ? 'drafted' : 'pending', group = makeSvg('g', {class: `mask-row ${state}`, 'data-k': item ? keyOf(item) : null, 'data-node': row - 1});
  group.append(makeSvg('title', {}, maskSentence(round, row - 1)),
    makeSvg('rect', {class: 'mask-back', x: 0, y, width, height: cell}),
    makeSvg('text', {x: 2, y: y + cell * 0.76, class: 'mask-mark', 'font-size': size}, done ? ROW_MARKS[item.state] || '' : ''),
    makeSvg('text', {x: names - 5, y: y + cell * 0.76, 'text-anchor': 'end', class: 'name', 'font-size': size}, item ? fitText(item.name, 7) : label('pending_short')),
    makeSvg('rect', {class: 'cell on prefix', x: names, y: y + 1, width: past - 3, height: cell - 2}));
  for (const id of lineage(round, row - 1)) {
    group.append(makeSvg('rect', {class: 'cell on', 'data-col': id, x: left + (id + 1) * cell + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1}));
  }
  return group;
}

// What a row of the mask says, in words.
function maskSentence(round, id) {
  const path = lineage(round, id).reverse().map((one) => (one < 0 ? label('pending_token') : memberOf(round, one).name));
  return label('mask_row', {name: path[path.length - 1], path: path.join(' → '), prefix: round.raw.context_length - 1});
}

function maskDrawing(round, room) {
  const geometry = maskGeometry(round, room), {count, unit, cell, left, top, width, height} = geometry;
  const grid = `sp-grid-${(hatchCount += 1)}`;
  const pattern = makeSvg('pattern', {id: grid, x: left, y: top, width: cell, height: cell, patternUnits: 'userSpaceOnUse'},
    makeSvg('rect', {class: 'cell off', x: 0.5, y: 0.5, width: cell - 1, height: cell - 1}));
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'mask-svg', role: 'img', 'aria-label': label('mask_aria', {n: count})}, makeSvg('defs', {}, pattern));
  svg.append(makeSvg('rect', {x: left, y: top, width: count * cell, height: count * cell, fill: `url(#${grid})`}), ...maskHeads(round, geometry));
  for (let row = 0; row < count; row += 1) svg.append(maskRow(round, row, geometry));
  return svg;
}
