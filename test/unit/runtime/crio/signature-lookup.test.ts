import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  createSignatureLookup,
  demandsSigstore,
  renderSignatureLookup,
} from '../../../../src/runtime/crio/signature-lookup.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

describe('look-up of sigstore signatures', () => {
  const base = folderForEach();
  const sigstore = [{ type: 'sigstoreSigned', keyPath: '/etc/pki/cosign.pub' }];
  const anything = [{ type: 'insecureAcceptAnything' }];

  it.each([
    ['by default', { default: sigstore }, true],
    ['for one registry', { default: anything, transports: { docker: { 'quay.example.com': sigstore } } }, true],
    ['beside another demand', { default: [...anything, ...sigstore] }, true],
    ['nowhere', { default: anything, transports: { docker: { 'quay.example.com': [{ type: 'signedBy' }] } } }, false],
    ['nothing at all', null, false],
  ])('is wanted where the policy demands signatures: %s', (_where, policy, isDemanded) => {
    expect(demandsSigstore(JSON.stringify(policy))).toBe(isDemanded);
  });

  it('is not wanted where the policy is not JSON', () => {
    expect(demandsSigstore('')).toBe(false);
    expect(demandsSigstore('{"type": "sigstoreSigned"')).toBe(false);
  });

  it('is wanted where a policy can not be read, which may demand signatures', async () => {
    const paths = {
      policyPath: join(base, 'policy.json'),
      policiesDirectory: join(base, 'policies'),
      signatureLookupFile: join(base, '99-stickpin.yaml'),
    };
    const lookup = createSignatureLookup(paths, { authority: '127.0.0.1:5317', token: 'a'.repeat(32) });
    expect(await lookup.isCurrent()).toBe(true);
    mkdirSync(paths.policyPath, { recursive: true });
    expect(await lookup.isCurrent()).toBe(false);
    await lookup.write();
    expect(await lookup.isCurrent()).toBe(true);
  });

  it('is configured for our registry only', () => {
    const text = renderSignatureLookup({ authority: '127.0.0.1:5317', token: 'a'.repeat(32) });
    expect(text.split('\n').slice(2)).toEqual([
      'docker:',
      `  "127.0.0.1:5317/${'a'.repeat(32)}":`,
      '    use-sigstore-attachments: true',
      '',
    ]);
  });
});
