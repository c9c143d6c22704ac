import { describe, expect, it } from 'vitest';
import { checkServe } from '../../../src/doctor/checks.ts';
import type { Settings } from '../../../src/domain/settings/settings.ts';
import { linesOf } from '../../support/examined-node.ts';

const told = async (serve: Partial<Settings['serve']>) => (await linesOf(checkServe, { settings: { serve } })).join();

describe('checkServe', () => {
  it('states which image a node with a network gets for a tag', async () => {
    expect(await told({})).toContain('the node gets the image of the release, whatever the tag names elsewhere');
    expect(await told({})).not.toContain('answered here');
    expect(await told({ activated: 'digests' })).toContain('pulls by tag are not');
    expect(await told({ activated: 'off' })).toContain('fail without a network');
    expect(await told({ except: ['quay.io/coreos/etcd'] })).toContain('but for quay.io/coreos/etcd');
  });
});
