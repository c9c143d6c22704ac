import { describe, expect, it } from 'vitest';
import { checkServe } from '../../../src/doctor/checks.ts';
import { defaultSettings, type Settings } from '../../../src/domain/settings/settings.ts';

const told = async (serve: Partial<Settings['serve']>) => {
  const checks = checkServe({ settings: { ...defaultSettings, serve: { ...defaultSettings.serve, ...serve } } });
  const findings = await Promise.all(checks.map((check) => check.run(new AbortController().signal)));
  return JSON.stringify(findings);
};

describe('checkServe', () => {
  it('states which image a node with a network gets for a tag', async () => {
    expect(await told({})).toContain('the node gets the image of the release, whatever the tag names elsewhere');
    expect(await told({})).not.toContain('answered here');
    expect(await told({ activated: 'digests' })).toContain('pulls by tag are not');
    expect(await told({ activated: 'off' })).toContain('fail without a network');
    expect(await told({ except: ['quay.io/coreos/etcd'] })).toContain('but for quay.io/coreos/etcd');
  });
});
