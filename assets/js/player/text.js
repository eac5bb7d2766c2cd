// From bytes to what the eye sees: characters complete, spaces visible, half characters as ⟨F0 9F⟩.
const NO_BYTES = [];
const utf8 = new TextDecoder('utf-8', {ignoreBOM: true});

function decodeBase64(text) {
  const raw = atob(text || '');
  return Array.from(raw, (char) => char.charCodeAt(0));
}

// Length of the character that `lead` opens; 0 if no character begins so.
function characterLength(lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

function continues(lead, offset, byte) {
  let low = 0x80, high = 0xbf;
  if (offset === 1) {
    if (lead === 0xe0) low = 0xa0;
    if (lead === 0xed) high = 0x9f;
    if (lead === 0xf0) low = 0x90;
    if (lead === 0xf4) high = 0x8f;
  }
  return byte >= low && byte <= high;
}

const hex = (bytes) => `⟨${bytes.map((b) => b.toString(16).toUpperCase().padStart(2, '0')).join(' ')}⟩`;

/* Feed one token's bytes after `carry`, the unfinished bytes before it.
   parts: what this token shows; clean: what reaches the text; carry: bytes still unfinished. */
function feedBytes(carry, bytes) {
  const buffer = carry.concat(bytes), parts = [];
  let at = 0, clean = '';
  const push = (kind, value) => {
    const last = parts[parts.length - 1];
    if (last && last.kind === kind) last.value = last.value.concat(value);
    else parts.push({kind, value});
  };
  while (at < buffer.length) {
    const lead = buffer[at], length = characterLength(lead);
    let have = length ? 1 : 0;
    while (have && have < length && at + have < buffer.length && continues(lead, have, buffer[at + have])) have += 1;
    if (length && have === length) {
      const text = utf8.decode(new Uint8Array(buffer.slice(at, at + length)));
      push('text', text);
      clean += text;
      at += length;
    } else if (have && at + have === buffer.length) {
      break;
    } else {
      const bad = buffer.slice(at, at + Math.max(1, have));
      // Bytes of the carry were already marked at the token that brought them.
      const fresh = bad.slice(Math.max(0, carry.length - at));
      if (fresh.length) push('hex', fresh);
      clean += hex(bad);
      at += bad.length;
    }
  }
  const fresh = buffer.slice(Math.max(at, carry.length));
  if (fresh.length) push('hex', fresh);
  return {parts, clean, carry: buffer.slice(at)};
}

const SPACE_MARKS = {' ': '·', '\n': '↵', '\t': '⇥', '\r': '␍', '\u00a0': '⍽'};
const INVISIBLE = /^[\p{Cf}\ufe00-\ufe0f]/u;
const COMBINING = /^\p{M}/u;
const SPECIAL = /[ \u00a0\p{Cc}\p{Co}\p{Cn}]/u; // private and unassigned characters have no glyph
const codePoint = (char) => `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

/* Cut a token's parts into runs {text, mark}: mark is '' for plain text, 'space' or 'byte'. */
function visibleRuns(parts) {
  const runs = [];
  const push = (text, mark) => {
    const last = runs[runs.length - 1];
    if (last && last.mark === mark && mark !== 'byte') last.text += text;
    else runs.push({text, mark});
  };
  for (const part of parts) {
    if (part.kind === 'hex') { push(hex(part.value), 'byte'); continue; }
    let rest = part.value;
    while (rest && INVISIBLE.test(rest)) {
      const char = String.fromCodePoint(rest.codePointAt(0));
      push(codePoint(char), 'byte');
      rest = rest.slice(char.length);
    }
    if (COMBINING.test(rest)) rest = `\u25cc${rest}`;
    if (!SPECIAL.test(rest)) { if (rest) push(rest, ''); continue; }
    for (const char of rest) {
      if (char in SPACE_MARKS) push(SPACE_MARKS[char], 'space');
      else if (SPECIAL.test(char)) push(codePoint(char), 'byte');
      else push(char, '');
    }
  }
  if (!runs.length) runs.push({text: '∅', mark: 'byte'});
  return runs;
}

function paintRuns(node, runs) {
  if (runs.length === 1 && !runs[0].mark) { node.textContent = runs[0].text; return; }
  for (const {text, mark} of runs) {
    if (!mark) node.append(text);
    else node.append(make('span', {class: mark === 'space' ? 'ws' : 'bytes'}, text));
  }
}

const flatText = (runs) => runs.map((run) => run.text).join('');

function shorten(text, limit) {
  const chars = Array.from(text);
  return chars.length > limit ? `${chars.slice(0, limit - 1).join('')}…` : text;
}

// The same by width: a Chinese character or an emoji takes nearly two letters.
const WIDE = /[\u2e80-\uffef]|[\u{1f000}-\u{3ffff}]/u;
function fitText(text, letters) {
  const chars = Array.from(text), wide = (char) => (WIDE.test(char) ? 1.7 : 1);
  if (chars.reduce((sum, char) => sum + wide(char), 0) <= letters + 0.01) return text;
  let room = letters - 1;
  const kept = chars.findIndex((char) => (room -= wide(char)) < -0.01);
  return `${chars.slice(0, kept).join('')}…`;
}
