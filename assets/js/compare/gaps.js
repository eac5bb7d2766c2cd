// Waits between bursts: one small histogram per lane on one logarithmic axis.
const ms = (x) => { const value = 1000 * x; return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2); };

function ticksBetween(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const digit of [1, 2, 5]) {
      const at = digit * 10 ** power;
      if (at >= low && at <= high) found.push(at);
    }
  }
  return found;
}

function gapRow(lane, edges, place) {
  const most = Math.max(1, ...lane.counts);
  const bars = lane.counts.map((count, i) => make('i', {
    class: 'cp-gap', style: `left:${place(edges[i])}%;width:${place(edges[i + 1]) - place(edges[i])}%;height:${100 * count / most}%`,
    title: label('cp_gap_bar', {count, low: ms(edges[i]), high: ms(edges[i + 1])}),
  }));
  const marks = ['p50', 'p99'].filter((name) => lane[name]).map((name) => make('i', {class: `cp-quantile ${name}`, style: `left:${place(lane[name])}%`}));
  return make('div', {class: 'cp-gaps-row'}, make('div', {class: 'cp-gaps-name'}, make('b', {}, lane.name), make('span', {}, lane.facts)),
    make('div', {class: 'cp-gaps-plot', role: 'img', 'aria-label': `${lane.name}: ${lane.facts}`}, bars, marks));
}

function gapsNode(gaps) {
  const {edges, lanes} = gaps;
  if (edges.length < 2) return make('p', {class: 'pv-fine'}, label('cp_na'));
  const low = Math.log(edges[0]), span = Math.log(edges[edges.length - 1]) - low || 1;
  const place = (x) => 100 * (Math.log(x) - low) / span;
  let ticks = ticksBetween(edges[0], edges[edges.length - 1]);
  if (ticks.length < 2) ticks = [edges[0], edges[edges.length - 1]];
  return make('div', {class: 'cp-gaps'}, lanes.map((lane) => gapRow(lane, edges, place)),
    make('div', {class: 'cp-gaps-row axis', 'aria-hidden': 'true'}, make('div', {}),
      make('div', {class: 'cp-axis'}, ticks.map((at) => make('span', {style: `left:${place(at)}%`}, label('cp_ms', {n: Number((1000 * at).toPrecision(2))}))))));
}
