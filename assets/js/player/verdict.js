// Why a token was accepted, rejected or drawn, in one sentence.
const CLOSE = 1e-9;

function quoted(token, before) { return `“${tokenName(token, before, 24)}”`; }

// Which family of tests the record shows; read from the numbers, never from the rule's name.
function testKind(item) {
  const flip = item.flip;
  if (flip.drawn_token !== undefined) return 'match';
  const ratio = flip.draft_prob > 0 ? Math.min(1, flip.target_prob / flip.draft_prob) : 0;
  if (Math.abs(ratio - flip.accept_prob) > CLOSE) return 'other';
  return item.slice?.deterministic ? 'one_hot' : 'ratio';
}

// What happens after a rejection: another sibling is tested, or the residual is drawn from.
function afterRejection(item) {
  const flips = store.rounds[item.round].flips, at = flips.indexOf(item.flip);
  return at + 1 < flips.length ? label('then_sibling') : label('then_residual');
}

function coinSentence(item) {
  const flip = item.flip, kind = testKind(item), kept = flip.accepted;
  const [a, u] = flip.u === undefined ? [prob(flip.accept_prob)] : probPair(flip.accept_prob, flip.u);
  const values = {
    x: quoted(item.token, item.before), p: prob(flip.target_prob), q: prob(flip.draft_prob), a: percent(flip.accept_prob),
    threshold: a, u, y: flip.drawn_token === undefined ? '' : quoted(flip.drawn_token, item.before), then: kept ? '' : afterRejection(item),
  };
  if (kind === 'match') return label(kept ? 'v_match_yes' : 'v_match_no', values);
  const law = kind === 'ratio' ? (flip.accept_prob >= 1 ? 'law_sure' : 'law_ratio') : kind === 'one_hot' ? 'law_one_hot' : 'law_other';
  const coin = flip.u === undefined ? (kept ? 'coin_none_yes' : 'coin_none_no') : kept ? 'coin_yes' : 'coin_no';
  return label('join', {first: label(law, values), second: label(coin, values)});
}

function overruledSentence(item) {
  if (!item.flip?.overruled && item.flip?.accepted === (item.state === 'accepted')) return '';
  if (!item.flip) return '';
  return label(item.state === 'accepted' ? 'v_kept_anyway' : 'v_dropped_anyway');
}

function nextSentence(item) {
  const values = {x: quoted(item.token, item.before)};
  const at = item.slice ? item.slice.tokens.indexOf(item.token) : -1;
  values.p = at >= 0 ? prob(item.slice.target[at]) : '–';
  if (item.state !== 'corrected') return label(`v_${item.state}`, values);
  if (item.from?.drawn_token !== undefined) return label('v_corrected_match', values);
  const row = at >= 0 && chartData(item, 'done')?.rows[at];
  values.r = row && row.residual !== null ? prob(row.residual) : '–';
  return label('v_corrected', values);
}

function verdictSentence(item, phase) {
  if (phase === 'draft') return label('v_drafted', {x: quoted(item.token, item.before)});
  if (phase === 'verify') return label(item.flip ? 'v_verified' : 'v_waiting', {x: quoted(item.token, item.before)});
  const parts = [];
  if (item.node === 'next') parts.push(nextSentence(item));
  else if (item.flip) parts.push(coinSentence(item), overruledSentence(item));
  else parts.push(label(item.state === 'accepted' ? 'v_accepted_plain' : untestedReason(item)));
  if (item.cut) parts.push(label('v_cut', {reason: label(`stop_${store.rounds[item.round].raw.stop_reason || 'end'}`)}));
  return parts.filter(Boolean).reduce((first, second) => label('join', {first, second}));
}

function untestedReason(item) {
  const round = store.rounds[item.round];
  const lost = round.items.some((other) => other.state === 'rejected' && isAncestor(round, other.node, item.node));
  return lost ? 'v_untested_below' : round.chain ? 'v_untested' : 'v_untested_aside';
}

function isAncestor(round, above, node) {
  for (let at = round.tree.parents[node]; at >= 0; at = round.tree.parents[at]) if (at === above) return true;
  return false;
}
