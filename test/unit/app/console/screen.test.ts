import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Screen } from '../../../../src/app/console/screen.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { idleReport } from '../../../support/bus/fake-backend.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const OWN = 8;

function made({ active = 1, beforePath = join(temporaryFolder(), 'before') } = {}) {
  const written: string[] = [];
  const node = { active, isClosed: false, isStopped: false };
  const screen = new Screen(
    {
      active: () => node.active,
      activate: (number) => {
        node.active = number;
      },
      write: (text) => {
        if (!node.isStopped) written.push(text);
        return !node.isStopped;
      },
      close: () => {
        node.isClosed = true;
      },
    },
    OWN,
    beforePath,
  );
  const show = (...kinds: StatusReport['media'][number]['kind'][]) =>
    screen.show({
      ...idleReport(),
      media: kinds.map((kind) => ({ medium: kind, kind, state: 'read', bundles: 0 })),
    });
  return { beforePath, node, screen, show, written };
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

  it('erases no character of its own at the end of a line that fills the terminal', () => {
    const { show, written } = made();
    show();
    const rows = written.join('').split('\r\n').slice(1, -1);
    expect(rows.length).toBeGreaterThan(5);
    expect(rows.filter((row) => row.lastIndexOf('\x1b[K') !== 0)).toEqual([]);
  });

  it('is given back at the end, cleared', () => {
    const { node, screen, show, written } = made();
    show('stick');
    screen.close();
    expect(node).toMatchObject({ active: 1, isClosed: true });
    expect(written.at(-1)).toContain('\x1b[2J');
  });

  it('is given back by the next process after a crash, unless somebody has changed it', () => {
    const crashed = made();
    crashed.show('stick');
    const next = made({ ...crashed, active: OWN });
    next.show('stick');
    expect(next.node.active).toBe(OWN);
    next.show();
    expect(next.node.active).toBe(1);

    crashed.show();
    crashed.show('stick');
    const other = made({ ...crashed, active: 3 });
    other.show('stick');
    expect(other.node.active).toBe(3);
    other.screen.close();
    expect(other.node.active).toBe(3);
    const later = made({ ...crashed, active: 2 });
    later.show('stick');
    expect(later.node.active).toBe(OWN);
  });

  it('is drawn again once somebody continues the output of the terminal', () => {
    const { node, show, written } = made();
    node.isStopped = true;
    show();
    node.isStopped = false;
    show();
    show();
    expect(written).toHaveLength(1);
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
