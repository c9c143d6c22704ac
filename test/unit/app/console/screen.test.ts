import { describe, expect, it } from 'vitest';
import { Screen } from '../../../../src/app/console/screen.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { idleReport } from '../../../support/bus/fake-backend.ts';

const OWN = 8;

function made() {
  const written: string[] = [];
  const node = { active: 1, isClosed: false };
  const screen = new Screen(
    {
      active: () => node.active,
      activate: (number) => {
        node.active = number;
      },
      write: (text) => written.push(text),
      close: () => {
        node.isClosed = true;
      },
    },
    OWN,
  );
  const show = (...kinds: StatusReport['media'][number]['kind'][]) =>
    screen.show({
      ...idleReport(),
      media: kinds.map((kind) => ({ medium: kind, kind, state: 'read', bundles: 0 })),
    });
  return { node, screen, show, written };
}

describe('the screen', () => {
  it('shows the own terminal while a stick is plugged in, and then the one from before', () => {
    const { node, show } = made();
    const seen = [[], ['stick'], ['stick', 'stick'], ['stick'], []].map((kinds) => {
      show(...(kinds as 'stick'[]));
      return node.active;
    });
    expect(seen).toEqual([1, OWN, OWN, OWN, 1]);
  });

  it('does not change for folders and other nodes', () => {
    const { node, show } = made();
    show('folder', 'node');
    expect(node.active).toBe(1);
  });

  it('stays with whoever changes it meanwhile, until the next stick', () => {
    const { node, show } = made();
    show('stick');
    node.active = 2;
    show('stick', 'stick');
    expect(node.active).toBe(2);
    show();
    expect(node.active).toBe(2);
    show('stick');
    expect(node.active).toBe(OWN);
    show();
    expect(node.active).toBe(2);
  });

  it('stays where it is for somebody who had the own terminal on it before', () => {
    const { node, show } = made();
    node.active = OWN;
    show('stick');
    show();
    expect(node.active).toBe(OWN);
  });

  it('is given back at the end, cleared', () => {
    const { node, screen, show, written } = made();
    show('stick');
    screen.close();
    expect(node).toEqual({ active: 1, isClosed: true });
    expect(written.at(-1)).toContain('\x1b[2J');
  });

  it('is drawn only when something changed, with nothing else than what it prints itself', () => {
    const { screen, written } = made();
    const report = { ...idleReport(), media: [] };
    screen.show({ ...report, advice: { action: 'wait', words: 'WAIT', text: 'a\x1b[31mb' } });
    screen.show({ ...report, advice: { action: 'wait', words: 'WAIT', text: 'a\x1b[31mb' } });
    expect(written).toHaveLength(1);
    expect(written[0]).toContain('a?[31mb');
  });
});
