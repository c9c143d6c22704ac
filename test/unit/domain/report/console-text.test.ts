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

      Preloading ocp 4.13.7 from sdb1: 37/112 images, 5.1 of 16.0 GiB, 84 MiB/s,
      about 2 min 10 s left

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

  it('is what is said to somebody at the node, where that differs', () => {
    const advice = {
      ...shown('WAIT', "Drain the node, then run 'systemctl stop crio'.").advice,
      atNode: 'CRI-O is damaged.',
    };
    const text = consoleText({ ...shown('WAIT', ''), advice });
    expect(text).toContain('\n\nCRI-O is damaged.\n');
    expect(text).not.toContain('systemctl');
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
