// Round table, counters, tape and the rule's code.
const TABLE_COLUMNS = ['round', 'drafted', 'tested', 'accepted', 'emitted', 'outcome', 'ms'];

function tableRow(round) {
  const t = round.timing, ms = milliseconds(t.draft_s + t.target_s + t.verify_s + t.commit_s);
  const cells = [round.index + 1, round.size, round.flips.length, round.accepted.length, round.raw.emitted.length];
  const stop = round.raw.stop_reason ? ` · ${label(`stop_${round.raw.stop_reason}`)}` : '';
  return make('tr', {'data-r': round.index, 'data-go': round.index, tabindex: -1},
    cells.map((value) => make('td', {}, String(value))),
    make('td', {class: `outcome ${round.next.state}`}, make('span', {class: 'outcome-name'}, label(`outcome_${round.outcome}`)), stop), make('td', {}, ms));
}

const addTableRows = (body, from) => {
  const rows = document.createDocumentFragment();
  for (const round of store.rounds.slice(from)) rows.append(tableRow(round));
  body.querySelector('tbody').append(rows);
};

fold('table', {
  build(body) {
    const head = make('thead', {}, make('tr', {}, TABLE_COLUMNS.map((name) => make('th', {scope: 'col'}, label(`col_${name}`)))));
    body.append(make('div', {class: 'scroller', tabindex: 0, role: 'region', 'aria-label': label('table')}, make('table', {class: 'rounds'}, head, make('tbody'))));
    addTableRows(body, 0);
  },
  grow(body, from) { addTableRows(body, from); },
  update(body) {
    body.querySelector('tr[aria-current]')?.removeAttribute('aria-current');
    const row = body.querySelector('tbody')?.rows[detailRound()], box = body.querySelector('.scroller');
    if (!row) return;
    row.setAttribute('aria-current', 'true');
    if (row.offsetTop < box.scrollTop + 40 || row.offsetTop > box.scrollTop + box.clientHeight - 40) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  },
});

fold('counters', {
  build(body) {
    if (!store.summary.length) { body.append(make('p', {class: 'hint'}, label('no_counters'))); return; }
    const list = make('div', {class: 'counter-grid'});
    for (const entry of store.summary) {
      const value = typeof entry.value === 'number' ? String(+entry.value.toPrecision(4)) : entry.value ?? label('not_available');
      const badge = entry.badge ? make('span', {class: `badge ${entry.badge}`}, LABELS[`badge_${entry.badge}`] ?? entry.badge) : null;
      list.append(make('details', {class: 'counter'},
        make('summary', {title: entry.definition || ''},
          make('span', {class: 'counter-value'}, value, entry.unit ? make('small', {}, ` ${entry.unit}`) : null),
          make('span', {class: 'counter-name'}, entry.title || entry.name, entry.symbol && entry.symbol !== '-' ? make('i', {}, ` ${entry.symbol}`) : null), badge),
        make('p', {}, entry.definition || '')));
    }
    body.append(list);
  },
  grow(body) { body.replaceChildren(); this.build(body); },
});

/* What each step consumed, in order: the draft's draws, then coins and the target's draws. */
function tapeOf(round) {
  const entries = [], sampled = round.raw.sampled || [];
  round.items.forEach((item, node) => {
    if (sampled[node]) entries.push({kind: 'draft', key: keyOf(item), text: `${label('tape_draft')} ${tokenName(item.token, item.before, 12)}`});
  });
  let drawnFor = null;
  for (const flip of round.flips) {
    const item = round.items[flip.node], key = keyOf(item);
    if (flip.drawn_token === undefined) {
      if (flip.u !== undefined) entries.push({kind: item.state === 'accepted' ? 'yes' : 'no', key, text: `u = ${probPair(flip.u, flip.accept_prob)[0]}`, mark: flip.accepted ? '✓' : '✗'});
    } else if (drawnFor !== item.parent) {
      entries.push({kind: 'target', key, text: `${label('tape_target')} ${tokenName(flip.drawn_token, item.before, 12)}`});
      drawnFor = item.parent;
    }
  }
  const matched = round.flips.some((flip) => flip.drawn_token !== undefined);
  if (!(matched && round.outcome === 'correction')) {
    entries.push({kind: 'target', key: keyOf(round.next), text: `${label(round.outcome === 'correction' ? 'tape_residual' : 'tape_target')} ${tokenName(round.next.token, round.next.before, 12)}`});
  }
  return entries;
}

fold('tape', {
  update(body) {
    const box = make('div', {class: 'tape-line'});
    for (const round of nearbyRounds(3)) {
      const group = make('div', {class: `tape-round${round.index === detailRound() ? ' now' : ''}`}, make('span', {class: 'rn', 'data-go': round.index}, String(round.index + 1)));
      if (round.index <= view.round) {
        for (const {kind, key, text, mark} of tapeOf(round)) {
          if (phaseOf(itemOfKey(key)) !== 'done' && kind !== 'draft') continue;
          group.append(make('span', {class: `tape-entry ${kind}`, 'data-k': key}, text, mark ? make('b', {'aria-hidden': 'true'}, ` ${mark}`) : null));
        }
      }
      box.append(group);
    }
    body.replaceChildren(make('p', {class: 'hint'}, label('tape_help')), box);
  },
});

// The line of the rule's source that belongs to what is shown: the first that holds a keyword.
function litLine() {
  const item = shownItem(), phase = item && phaseOf(item);
  let step = 'verify';
  if (item && phase === 'done') {
    if (item.node === 'next') step = 'emit';
    else if (item.state === 'untested') step = 'emit';
    else step = view.step === null ? (item.state === 'accepted' ? 'accept' : 'reject') : 'coin';
  }
  const words = (LABELS[`code_${step}`] || '').split('|').filter(Boolean);
  for (const word of words) {
    const at = store.source.findIndex((line) => line.includes(word));
    if (at >= 0) return at;
  }
  return -1;
}

fold('code', {
  update(body) {
    if (!store.source.length) { body.replaceChildren(make('p', {class: 'hint'}, label('no_code'))); return; }
    const lit = litLine();
    body.replaceChildren(make('pre', {class: 'code', tabindex: 0, 'aria-label': label('code')},
      store.source.map((line, at) => make('span', {class: `code-line${at === lit ? ' on' : ''}`, 'aria-current': at === lit ? 'true' : null}, line || ' '))));
  },
});
