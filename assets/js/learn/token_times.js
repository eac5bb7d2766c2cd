// Two recorded runs as stairs: tokens that have come out, over time.
function chart({plain, speculative, words}, width) {
  const runs = {plain, speculative}, most = Math.max(...Object.values(runs).map(({times_ms}) => times_ms.at(-1))), count = Math.max(plain.times_ms.length, speculative.times_ms.length);
  const {svg, inside, x, y, unit, box} = axes({width, height: Math.max(240, Math.min(340, width * 0.45)), xs: [0, most], ys: [0, count], xTicks: ticks(most, width > 500 ? 8 : 4), yTicks: ticks(count, 5), yText: (v) => v.toFixed(0), xText: (v) => v.toFixed(0), xLabel: words.axis_ms, yLabel: words.axis_tokens,
    label: fillIn(words.times_aria, {rows: Object.entries(runs).map(([name, run]) => `${words[`run_${name}`]}: ${words.ttft} ${run.ttft_ms.toFixed(1)} ms, ${words.tpot} ${run.tpot_ms.toFixed(1)} ms`).join('; ')})});
  for (const [name, {times_ms}] of Object.entries(runs)) {
    const steps = times_ms.map((time, i) => `H${x(time).toFixed(1)}V${y(i + 1).toFixed(1)}`).join('');
    inside.append(makeSvg('path', {class: `curve ${name}`, d: `M${box.left} ${y(0)}${steps}`}), times_ms.map((time, i) => makeSvg('circle', {class: `mark ${name}`, cx: x(time), cy: y(i + 1), r: unit * 0.2})));
  }
  return svg;
}

function draw(data) {
  const {plain, speculative, words, badge, caption} = data, body = make('div', {class: 'body'});
  const ms = (value) => fillIn(words.ms, {value: value.toFixed(1)});
  const row = (key, name, text) => make('tr', {'data-row': key}, make('th', {scope: 'row'}, words[key]), make('td', {}, text(plain[name])), make('td', {}, text(speculative[name])), make('td', {}, speculative[name] > 0 ? `${two(plain[name] / speculative[name])}×` : '–'));
  const show = () => body.replaceChildren(chart(data, Math.max(280, body.clientWidth || root.clientWidth)));
  const item = (mark, text) => make('li', {}, make('i', {class: `swatch ${mark}`}), text);
  root.replaceChildren(make('figure', {class: 'token-times speed-figure'}, make('ul', {class: 'legend'}, item('plain', words.run_plain), item('speculative', words.run_speculative), make('li', {}, make('span', {class: 'badge'}, badge))), body,
    make('div', {class: 'scroll-x'}, make('table', {}, make('thead', {}, make('tr', {}, make('td', {}), make('th', {scope: 'col'}, words.run_plain), make('th', {scope: 'col'}, words.run_speculative), make('th', {scope: 'col'}, words.ratio))),
      make('tbody', {}, row('ttft', 'ttft_ms', ms), row('tpot', 'tpot_ms', ms), row('median_gap', 'median_gap_ms', ms), row('p99_gap', 'p99_gap_ms', ms),
        make('tr', {}, make('th', {scope: 'row'}, words.tau), make('td', {}, two(plain.tau)), make('td', {}, two(speculative.tau)), make('td', {}, '–'))))),
    make('figcaption', {}, caption)));
  show();
  onWidth(body, show);
}
start(draw);
