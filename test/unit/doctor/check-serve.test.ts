import { describe, expect, it } from 'vitest';
import { checkServe } from '../../../src/doctor/checks.ts';
import type { Settings } from '../../../src/domain/settings/settings.ts';
import { examinedRuntime, linesOf } from '../../support/examined-node.ts';

const told = async (serve: Partial<Settings['serve']>, title = 'containerd') => {
  const findRuntime = async () => examinedRuntime({ title, losesPins: title !== 'containerd' });
  return (await linesOf(checkServe, { settings: { serve, runtime: { kind: 'auto' } }, findRuntime })).join();
};

describe('checkServe', () => {
  it('states which image a node with a network gets for a tag', async () => {
    expect(await told({})).toContain('the node gets the image of the release, whatever the tag names elsewhere');
    expect(await told({})).not.toContain('answered here');
    expect(await told({ activated: 'digests' })).toContain('pulls by tag are not');
    expect(await told({ activated: 'off' })).toContain('fail without a network');
    expect(await told({ except: ['quay.io/coreos/etcd'] })).toContain('but for quay.io/coreos/etcd');
  });

  it.each(['Docker', 'Podman'])('does not say that %s asks our registry for pulls of others', async (title) => {
    const line = await told({}, title);
    expect(line).toMatch(new RegExp(`^ok: ${title} uses our registry for what stickpin loads only`));
    expect(line).not.toContain('with or without');
  });
});
