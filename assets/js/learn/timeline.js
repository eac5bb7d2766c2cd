// Plain decoding as time: one block per pass of the target, as wide as the pass was long.
function draw({passes, badge, total, caption}) {
  root.replaceChildren(make('figure', {class: 'timeline'}, make('p', {class: 'badge'}, badge),
    make('ol', {class: 'passes'}, passes.map(({text, ms}) => make('li', {style: `flex-grow:${ms.toFixed(2)}`, title: `${ms.toFixed(2)} ms`},
      make('span', {class: 'token'}, text), make('small', {}, `${ms.toFixed(1)} ms`)))),
    make('p', {class: 'total'}, total), make('figcaption', {}, caption)));
}
start(draw);
