// v(n): how long a target pass on n tokens takes; the dashed frame is n passes on one token each.
const SERIES = ['first', 'second', 'third'];

function bars(series, widths, words) {
  const most = Math.max(...widths), rows = [];
  for (const n of widths) {
    const at = (value) => `${(100 * value) / most}%`;
    const lines = series.map(({costs, title}, index) => make('div', {class: `line ${SERIES[index]}`, title: `${title}: v(${n}) = ${costs[n].toFixed(2)}`},
      make('span', {class: 'bar', style: `width:${at(costs[n])}`}), make('span', {class: 'value'}, costs[n].toFixed(2))));
    rows.push(make('div', {class: 'n'}, fillIn(n === 1 ? words.one_token : words.n_tokens, {n})),
      make('div', {class: 'track'}, make('span', {class: 'ghost', style: `width:${at(n)}`}, n > 1 && make('span', {class: `ghost-value ${n / most < 0.2 ? 'near' : ''}`}, `${n}`)), lines));
  }
  return make('div', {class: 'bars', role: 'img', 'aria-label': series.map(({title, costs}) => `${title}: ${widths.map((n) => `v(${n}) = ${costs[n].toFixed(2)}`).join(', ')}`).join('; ')}, rows);
}

function draw({series, caption, words, status, tone}) {
  const widths = Object.keys(series[0].costs).map(Number).filter((n) => series.every(({costs}) => n in costs)).sort((a, b) => a - b);
  const legend = series.map(({title, detail, live}, index) => make('li', {class: SERIES[index]}, make('i', {class: 'swatch'}), make('span', {}, make('b', {}, title), ' ', detail, ' ', make('span', {class: 'badge'}, live ? words.measured_now : words.measured))));
  root.replaceChildren(make('figure', {class: 'verify-cost'}, make('ul', {class: 'legend'}, legend,
    make('li', {}, make('i', {class: 'swatch ghost-key'}), words.ghost)), bars(series, widths, words),
  make('p', {class: `status ${tone || ''}`, role: tone === 'error' ? 'alert' : 'status'}, status || ''), make('figcaption', {}, caption)));
  element.dataset.series = String(series.length);
}
start(draw);
