import { describe, expect, it } from 'vitest';
import { demandsSigstore, renderSignatureLookup } from '../../../../src/runtime/crio/signature-lookup.ts';

describe('look-up of sigstore signatures', () => {
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
