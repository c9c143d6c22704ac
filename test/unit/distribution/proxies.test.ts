import { describe, expect, it } from 'vitest';
import { proxies } from '../../../src/distribution/proxies.ts';

describe('the proxies of the environment', () => {
  it.each([
    ['http://proxy.example.com:3128', 'http://proxy.example.com:3128'],
    ['proxy.example.com:3128', 'http://proxy.example.com:3128'],
    ['bob:hush@proxy.example.com:3128', 'http://bob:hush@proxy.example.com:3128'],
    ['https://bob:h%2Fush@proxy.example.com/', 'https://bob:h%2Fush@proxy.example.com/'],
  ])('take %s', (given, taken) => {
    expect(proxies({ HTTPS_PROXY: given, PATH: '/bin' })).toEqual({ HTTPS_PROXY: taken, PATH: '/bin' });
  });

  it.each([
    ['http://bob:hu/sh@proxy.example.com', /^HTTPS_PROXY is not the address of a proxy: write http:\/\/HOST:PORT/],
    ['http://bob:1/hush@proxy.example.com:3128', /%2F for \//],
    ['http://bob:hu#sh@proxy.example.com:3128', /%23 for #/],
    ['bob:hu/sh@proxy.example.com:3128', /is not the address/],
    ['http://bob:hush@proxy.example.com:99999', /is not the address/],
    ['socks5://bob:hush@proxy.example.com:1080', /^HTTPS_PROXY names a socks5:\/\/ proxy, which is not supported/],
  ])('refuse %s, and name nothing of it', (HTTPS_PROXY, expected) => {
    const refuse = () => proxies({ HTTPS_PROXY });
    expect(refuse).toThrow(
      expect.objectContaining({ code: 'bundle/option', message: expect.stringMatching(expected) }),
    );
    expect(refuse).not.toThrow(/hu.?sh|bob|example/);
  });

  it('do not look at variables that are empty or of something else', () => {
    const env = { HTTPS_PROXY: '', NO_PROXY: 'a@b', OTHER: 'socks5://x' };
    expect(proxies(env)).toEqual(env);
  });
});
