// Acceptance by depth: how often a round gets so far, and how often it goes one token further.
const shareBar = (kind, share) => make('td', {class: 'share'},
  share === null || share === undefined ? label('not_available')
    : [make('span', {class: 'share-track', 'aria-hidden': 'true'}, make('span', {class: `share-bar ${kind}`, style: `width:${(100 * share).toFixed(2)}%`})), make('span', {class: 'share-value'}, percent(share))]);

fold('depths', {
  build(body) {
    const data = store.depths;
    if (!data?.rows.length) { body.append(make('p', {class: 'hint'}, label('no_depths'))); return; }
    const names = ['depth', 'cumulative', 'conditional', ...(data.tree ? ['tested_width', 'drafted_width'] : [])];
    const width = (value) => make('td', {}, value === null || value === undefined ? label('not_available') : value.toFixed(2));
    const rows = data.rows.map((row) => make('tr', {}, make('th', {scope: 'row'}, String(row.depth)), shareBar('cumulative', row.cumulative), shareBar('conditional', row.conditional),
      data.tree ? [width(row.tested), width(row.drafted)] : null));
    body.append(make('div', {class: 'raw-slot'}, make('table', {class: 'depths-table'},
      make('thead', {}, make('tr', {}, names.map((name) => make('th', {scope: 'col', title: label(`col_${name}_help`)}, label(`col_${name}`))))), make('tbody', {}, rows))),
    make('div', {class: 'depths-about'}, data.about.slice(0, data.tree ? 2 : 1).map(({title, text}) => make('p', {class: 'hint'}, make('b', {}, title), ' ', text)),
      make('span', {class: `badge ${data.badge}`}, label(`badge_${data.badge}`))));
  },
  grow(body) { body.replaceChildren(); this.build(body); },
});
