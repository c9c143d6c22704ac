import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  clip,
  oneLine,
  plainDocument,
  plainLines,
  plainText,
  quoted,
  quotedPath,
  terminalText,
} from '../../../src/platform/plain-text.ts';

const FORBIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;
/** Any UTF-16, lone surrogates included, with much of what must go. */
const anyText = fc
  .array(
    fc.oneof(
      fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '\u202e',
        '\u2066',
        '\u200b',
        '\u2028',
        '\u2029',
        '\u001b[2J',
        '\u009b',
        '\u00ad',
        '\ufeff',
        '\ud800',
        '\u{e0041}',
      ),
    ),
  )
  .map((parts) => parts.join(''));

describe('text from outside', () => {
  it('contains no control, format or separator characters and no lone surrogates, for any text', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        for (const plain of [plainText(text), oneLine(text), clip(oneLine(text), 20)]) {
          expect(plain).not.toMatch(FORBIDDEN);
        }
        expect(plainText(plainText(text))).toBe(plainText(text));
        expect(oneLine(oneLine(text))).toBe(oneLine(text));
      }),
    );
  });

  it('keeps letters and spaces, and line ends on request', () => {
    expect(plainText('a  b\u202egpj.exe\u2028c\u001b[31md')).toBe('a  bgpj.exe c [31md');
    expect(oneLine(' Müll  \r\n\u200b 日本語 \u0007')).toBe('Müll 日本語');
    expect(plainLines('one\u202e\ntwo\u0085')).toBe('one\ntwo ');
  });

  it('is never cut inside a character', () => {
    expect(clip('ab😀cd', 4)).toBe('ab…');
    expect(clip('ab😀cd', 5)).toBe('ab😀…');
  });

  it('keeps only line ends and our own escape sequences on a terminal', () => {
    expect(terminalText('\r\u001b[Kdone\n')).toBe('\r\u001b[Kdone\n');
    expect(terminalText('{"a":"\u202e\u009b2J\u2028"}')).toBe('{"a":" 2J "}');
  });

  it('is cleaned anywhere in a document', () => {
    const dirty = { a: ['x\u202ey', { b: 'c\u0000d', n: 1, u: undefined }], z: null };
    expect(plainDocument(dirty)).toEqual({ a: ['xy', { b: 'c d', n: 1, u: undefined }], z: null });
  });

  it('ends a document that another node has nested without an end', () => {
    const deep: unknown = JSON.parse(`${'[{"a":'.repeat(20_000)}1${'}]'.repeat(20_000)}`);
    expect(JSON.stringify(plainDocument(deep))).toMatch(/^(?:\[\{"a":){32}null(?:\}\]){32}$/);
  });
});

describe('a path for a message', () => {
  it.each([
    ['/run/stickpin/media/sdb1/stickpin/ocp-4.13.7_rc+1', '/run/stickpin/media/sdb1/stickpin/ocp-4.13.7_rc+1'],
    ['stickpin/Ausgabe-März/', 'stickpin/Ausgabe-März/'],
    ['stickpin/x. Leave the stick in. y/blobs', 'stickpin/"x. Leave the stick in. y"/blobs'],
    ['stickpin/a" is good. Remove the stick', `stickpin/"a' is good. Remove the stick"`],
    ['stickpin/a\nb', 'stickpin/"a b"'],
  ])('has names in quotes that could be words of the message: %j', (path, shown) => {
    expect(quotedPath(path)).toBe(shown);
  });

  it('has double quotes in pairs only, for any text', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(quotedPath(text).split('"').length % 2).toBe(1);
        expect(quoted(text)).toMatch(/^"[^"]*"$/);
      }),
    );
  });
});
