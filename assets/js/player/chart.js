// The bars of one place: target p, draft q, their overlap min(p, q), and the residual.
const TOP_ROWS = 12;
const SERIES = ['target', 'draft', 'overlap', 'residual'];

// What the slice of an item says, token by token.
function chartData(item, phase) {
  const slice = item.slice;
  if (!slice) return null;
  const flip = item.flip || item.from, matched = flip?.drawn_token !== undefined;
  const drafted = Boolean(flip) && (Boolean(slice.draft?.length) || Boolean(slice.deterministic));
  const overlap = slice.overlap || 0;
  const rows = slice.tokens.map((token, i) => {
    const p = slice.target[i];
    const q = !drafted ? null : slice.draft?.length ? slice.draft[i] : Number(token === flip.token);
    const formula = drafted && !matched && overlap < 1 ? Math.max(0, p - q) / (1 - overlap) : null;
    const residual = slice.left?.length ? slice.left[i] : formula;
    return {token, p, q, overlap: drafted ? Math.min(p, q) : null, excess: drafted ? Math.max(0, p - q) : null, residual};
  });
  const knowsTarget = phase !== 'draft';
  return {
    rows, drafted, matched, overlap, knowsTarget, reveal: phase === 'done',
    draftedToken: flip?.token, drawnToken: phase === 'done' ? (item.node === 'next' ? item.token : flip?.drawn_token) : undefined,
    restTarget: slice.rest_target || 0, restDraft: slice.rest_draft || 0,
  };
}

// The first rows, and always the drafted and the drawn token.
function chosenRows(data, all) {
  if (all) return data.rows;
  const top = data.rows.slice(0, TOP_ROWS);
  const missing = data.rows.slice(TOP_ROWS).filter((row) => row.token === data.draftedToken || row.token === data.drawnToken);
  return [...top.slice(0, TOP_ROWS - missing.length), ...missing];
}

function seriesOf(data) {
  return SERIES.filter((name) => {
    if (name === 'target') return data.knowsTarget;
    if (name === 'draft') return data.drafted;
    if (name === 'residual') return data.drafted && data.reveal && data.rows.some((row) => row.residual !== null);
    return data.drafted && data.knowsTarget;
  });
}

const valueOf = (row, name) => ({target: row.p, draft: row.q, overlap: row.overlap, residual: row.residual})[name] ?? 0;

function niceTop(value) {
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1].find((top) => value <= top + 1e-9) ?? 1;
}

let hatchCount = 0;
function hatch() {
  hatchCount += 1;
  const id = `sp-hatch-${hatchCount}`;
  const pattern = makeSvg('pattern', {id, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'},
    makeSvg('rect', {width: 6, height: 6, class: 'hatch-ground'}), makeSvg('rect', {width: 2.5, height: 6, class: 'hatch-line'}));
  return {id, defs: makeSvg('defs', {}, pattern)};
}

function barGroup(row, geometry, series) {
  const {x0, scale, barHeight, top} = geometry;
  return series.map((name, i) => makeSvg('rect', {
    class: `bar ${name}`, x: x0, y: top + i * (barHeight + 1), height: barHeight,
    width: Math.max(valueOf(row, name) > 0 ? 1 : 0, valueOf(row, name) * scale),
  }));
}

/* Overlay: the overlap filled, what only the target has hatched, both laws as outlines. */
function overlayGroup(row, geometry, series, pattern) {
  const {x0, scale, rowHeight, top} = geometry, height = rowHeight - 8, shapes = [];
  const box = (name, from, to, extra = {}) => makeSvg('rect', {
    class: name, x: x0 + from * scale, y: top, width: Math.max(0, (to - from) * scale), height, ...extra});
  if (series.includes('overlap')) shapes.push(box('bar overlap', 0, row.overlap));
  if (series.includes('overlap') && row.excess > 0) shapes.push(box('bar excess', row.overlap, row.p, {fill: `url(#${pattern})`}));
  if (series.includes('draft')) shapes.push(box('outline draft', 0, row.q));
  if (series.includes('target')) shapes.push(box('outline target', 0, row.p));
  return shapes;
}

function rowText(row, data) {
  if (!data.knowsTarget) return prob(row.q);
  return data.drafted ? `${prob(row.p)} / ${prob(row.q)}` : prob(row.p);
}

function drawChart(item, data) {
  const box = make('div', {class: 'chart'}), rows = chosenRows(data, view.more), series = seriesOf(data);
  const unit = unitPx * 0.85, width = Math.max(240, widthOf(ui.chart)), {id, defs} = hatch();
  const bars = view.mode === 'bars', barHeight = Math.max(4, Math.round(unit * 0.36));
  const rowHeight = bars ? Math.max(unit * 1.5, series.length * (barHeight + 1) + 8) : unit * 1.9;
  const nameWidth = Math.min(unit * 8, width * 0.28), valueWidth = unit * (data.drafted ? 7.2 : 4);
  const names = rows.map((row) => shorten(tokenName(row.token, item.before), Math.floor(nameWidth / (unit * 0.6))));
  const x0 = nameWidth + 8, room = width - x0 - valueWidth;
  const most = niceTop(Math.max(0.01, ...rows.flatMap((row) => (bars ? series : ['target', 'draft']).map((name) => valueOf(row, name)))));
  const scale = room / most, axis = unit * 1.3, height = axis + rows.length * rowHeight + 4;
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'font-size': unit, 'aria-label': chartSummary(item, rows, data)}, defs);
  for (const tick of [0, most / 2, most]) {
    const x = x0 + tick * scale;
    svg.append(makeSvg('line', {x1: x, x2: x, y1: axis, y2: height, class: 'grid'}),
      makeSvg('text', {x, y: unit, 'text-anchor': tick ? 'middle' : 'start', class: 'axis'}, String(+tick.toPrecision(2))));
  }
  rows.forEach((row, i) => {
    const top = axis + i * rowHeight + 4, middle = top + (rowHeight - 8) / 2 + unit * 0.35;
    const marks = [row.token === data.draftedToken && 'is-drafted', row.token === data.drawnToken && 'is-drawn'].filter(Boolean);
    const group = makeSvg('g', {class: ['row', ...marks].join(' '), 'data-token': row.token},
      makeSvg('title', {}, rowTitle(item, row, data)),
      makeSvg('rect', {class: 'row-back', x: 0, y: top - 3, width, height: rowHeight - 2, rx: 4}),
      makeSvg('text', {x: nameWidth, y: middle, 'text-anchor': 'end', class: 'name'}, names[i]));
    if (marks.length) group.append(makeSvg('text', {x: 2, y: middle, class: 'mark'}, marks.includes('is-drawn') ? '◆' : '▸'));
    group.append(...(bars ? barGroup(row, {x0, scale, barHeight, top}, series) : overlayGroup(row, {x0, scale, rowHeight, top}, series, id)));
    group.append(makeSvg('text', {x: width - 2, y: middle, 'text-anchor': 'end', class: 'value'}, rowText(row, data)));
    svg.append(group);
  });
  box.append(svg);
  return box;
}

function rowTitle(item, row, data) {
  const parts = seriesOf(data).map((name) => `${label(name)} ${prob(valueOf(row, name))}`);
  return `${tokenName(row.token, item.before, 80)}: ${parts.join(', ')}`;
}

function chartSummary(item, rows, data) {
  return rows.slice(0, 5).map((row) => rowTitle(item, row, data)).join('; ');
}

function chartLegend(data) {
  const box = make('div', {class: 'chart-legend'});
  for (const name of seriesOf(data)) {
    const value = name === 'overlap' ? ` Σ = ${prob(data.overlap)}` : '';
    const series = view.mode === 'overlay' && name === 'residual' ? 'excess' : name;
    box.append(make('span', {class: 'key', 'data-term': name}, make('i', {class: `swatch ${series} ${view.mode}`}), label(series === 'excess' ? 'excess' : `${name}_long`) + value));
  }
  if (data.drafted) box.append(make('span', {class: 'key'}, '▸ ', label('mark_drafted')));
  if (data.drawnToken !== undefined) box.append(make('span', {class: 'key'}, '◆ ', label('mark_drawn')));
  return box;
}
