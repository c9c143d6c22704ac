import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ACTIONS } from '../../../../src/domain/report/actions.ts';
import { consoleKey, consoleText } from '../../../../src/domain/report/console-text.ts';

const shown = (words: string, text: string, code?: string, doneBytes = 0, totalBytes = 0) => ({
  advice: { action: 'none' as const, words, text, ...(code !== undefined && { code }) },
  operation: totalBytes > 0 ? ('preloading' as const) : ('idle' as const),
  progress: { doneBytes, totalBytes },
});

describe('the text for a console', () => {
  it('has the words of the action in large letters, then the text, the bar and the code', () => {
    const text = 'Preloading ocp 4.13.7 from sdb1: 37/112 images, 5.1 of 16.0 GiB, 84 MiB/s, about 2 min 10 s left';
    expect(`\n${consoleText(shown('LEAVE THE STICK IN', text, undefined, 5.1, 16))}`).toMatchInlineSnapshot(`
      "
      #     #####  ###  #   # #####     ##### #   # #####
      #     #     #   # #   # #           #   #   # #
      #     ####  ##### #   # ####        #   ##### ####
      #     #     #   #  # #  #           #   #   # #
      ##### ##### #   #   #   #####       #   #   # #####

       #### ##### ###  #### #   #     ### #   #
      #       #    #  #     #  #       #  ##  #
       ###    #    #  #     ###        #  # # #
          #   #    #  #     #  #       #  #  ##
      ####    #   ###  #### #   #     ### #   #

      Preloading ocp 4.13.7 from sdb1: 37/112 images, 5.1 of 16.0 GiB

      [###################.........................................] 31 %
      "
    `);
    expect(
      `\n${consoleText(shown('CALL SUPPORT', 'No key of this node signed the bundle on sdb1.', 'K-03'))}`,
    ).toMatchInlineSnapshot(`
      "
       ####  ###  #     #          #### #   # ####  ####   ###  ####  #####
      #     #   # #     #         #     #   # #   # #   # #   # #   #   #
      #     ##### #     #          ###  #   # ####  ####  #   # ####    #
      #     #   # #     #             # #   # #     #     #   # #  #    #
       #### #   # ##### #####     ####   ###  #     #      ###  #   #   #

      No key of this node signed the bundle on sdb1.

      Code for the support: K-03
      "
    `);
  });

  it.each(Object.values(ACTIONS).map(({ words }) => words))('fits on a screen of 80 by 25: %s', (words) => {
    const lines = consoleText(shown(words, 'word '.repeat(400), 'M-12', 1, 3)).split('\n');
    // The prompt and /etc/issue have room, too.
    expect(lines.length).toBeLessThanOrEqual(21);
    const letters = words.replaceAll(' ', '').length;
    expect(lines.slice(0, 11).join(' ').split(/ {2,}/).length, 'no word is left out').toBeGreaterThan(letters);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(80);
    const [first = ''] = lines;
    expect(first).toMatch(/#/);
  });

  it('is printable ASCII without a backslash and of a bounded size, whatever a stick is named', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 5000 }), fc.string({ unit: 'binary' }), (text, code) => {
        const printed = consoleText(shown('WAIT', text, code));
        expect(printed).toMatch(/^[\n\x20-\x5b\x5d-\x7e]*$/);
        expect(printed.length).toBeLessThan(2_000);
        expect(Math.max(...printed.split('\n').map((line) => line.length))).toBeLessThan(80);
      }),
    );
    expect(consoleText(shown('W\\x1bÄ'.repeat(40), ''))).toMatch(/^[\n #]*$/);
    expect(consoleText(shown('WAIT', 'a \\4{eth0} \x1b[2J … ü'))).toContain('a /4{eth0} ?[2J ... ?');
  });

  it('moves its bar in steps, and never to 100 %, since images are stored after the last byte', () => {
    const barAt = (doneBytes: number, step: number) =>
      /\[.*\] (\d+ %)/.exec(consoleText(shown('WAIT', '', undefined, doneBytes, 1000), step))?.[1];
    expect([0, 99, 100, 999, 1000, 2000].map((bytes) => barAt(bytes, 10))).toEqual([
      '0 %',
      '0 %',
      '10 %',
      '90 %',
      '90 %',
      '90 %',
    ]);
    expect([barAt(999, 1), barAt(1000, 1)]).toEqual(['99 %', '99 %']);
    expect(consoleText(shown('WAIT', 'text'))).not.toContain('%');
  });

  it('has no commands, and where support comes only what is wrong', () => {
    const textOf = (
      words: string,
      text: string,
      action: 'call-support' | 'plug-in' | 'remove' = 'call-support',
      stay?: string,
    ) =>
      consoleText({ ...shown(words, text), advice: { words, text, action, ...(stay !== undefined && { stay }) } })
        .split('\n\n')
        .at(-1)
        ?.replaceAll('\n', ' ')
        .trim();
    const unknown =
      "Rejected bundle on the stick: signature by unknown key 5f0c…: no key in /k matches; if you trust the signer, copy its .pub file there; see 'stickpin list'";
    expect(textOf('WAIT', unknown)).toBe(
      'Rejected bundle on the stick: signature by unknown key 5f0c...: no key in /k matches.',
    );
    expect(textOf('WAIT', 'It failed: rm: /x. Leave the stick in: it is needed.')).toBe('It failed: rm: /x.');
    expect(textOf('WAIT', 'Rejected bundle on the stick: "a; see it. Leave the stick in"; see \'stickpin list\'')).toBe(
      'Rejected bundle on the stick: "a; see it. Leave the stick in".',
    );
    const space =
      "Not enough space for ocp 4.13.7 on /var: needs 2 GiB. Free space there, or run 'stickpin unpin' for it.";
    const stay = 'Leave the stick in: 1 of 2 nodes still load from the stick.';
    expect(textOf('WAIT', `${space} ${stay}`, 'call-support', stay)).toBe(
      'Not enough space for ocp 4.13.7 on /var: needs 2 GiB. Leave the stick in: 1 of 2 nodes still load from the stick.',
    );
    expect(textOf('WAIT', "ocp 4.13.7 needs an undamaged copy: see 'stickpin list'. It waits.", 'plug-in')).toBe(
      'ocp 4.13.7 needs an undamaged copy. It waits.',
    );
    const rejected =
      "4 images pinned. 1 bundle on sdc1 was rejected: see 'stickpin list'. tools 1.0.0 needs attention.";
    expect(textOf('WAIT', rejected, 'remove')).toBe(
      '4 images pinned. 1 bundle on sdc1 was rejected. tools 1.0.0 needs attention.',
    );
    expect(
      textOf('WAIT', "ocp is loaded. Call support. To activate it: 'stickpin activate ocp@4.13.7'.", 'remove'),
    ).toBe('ocp is loaded. Call support.');
    expect(textOf('WAIT', "sdb1 was unmounted; plug it in again or run 'stickpin rescan'.", 'plug-in')).toBe(
      'sdb1 was unmounted; plug it in again.',
    );
  });

  it('counts as another one with another action, code or step, and not with another rate', () => {
    const keyOf = (...args: Parameters<typeof shown>) => consoleKey(shown(...args), 10);
    const key = keyOf('WAIT', '1 of 9', 'M-01', 11, 100);
    expect(keyOf('WAIT', '2 of 9', 'M-01', 19, 100)).toBe(key);
    expect(keyOf('WAIT', '2 of 9', 'M-01', 20, 100)).not.toBe(key);
    expect(keyOf('WAIT', '1 of 9', 'M-02', 11, 100)).not.toBe(key);
    expect(keyOf('DONE', '1 of 9', 'M-01', 11, 100)).not.toBe(key);
  });
});
