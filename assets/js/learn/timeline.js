// Plain decoding as time: one cell per pass of the target, with a bar as long as the pass took.
function draw({passes, badge, total, caption}) {
  const most = Math.max(...passes.map(({ms}) => ms));
  root.replaceChildren(make('figure', {class: 'timeline'}, make('p', {class: 'badge'}, badge),
    make('ol', {class: 'passes'}, passes.map(({text, ms}) => make('li', {title: `${ms.toFixed(2)} ms`},
      make('span', {class: 'token'}, text), make('i', {style: `width:${((100 * ms) / most).toFixed(1)}%`}), make('small', {}, `${ms.toFixed(1)} ms`)))),
    make('p', {class: 'total'}, total), make('figcaption', {}, caption)));
}
start(draw);
