import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { apiReference } from '../../../src/api/api-reference.ts';

describe('docs/dbus.md', () => {
  it("is what 'npm run docs' writes", () => {
    expect(readFileSync('docs/dbus.md', 'utf8')).toBe(apiReference());
  });

  it('has a row for a method, a property and a signal, with their types', () => {
    const lines = apiReference().split('\n');
    expect(lines).toContainEqual(
      expect.stringMatching(
        /^\| `Unpin` \| `bundle` `s`, `options` `a\{sv\}` \(`removeImages` `b`, `force` `b`\) \| `consequence` `s` \| `io\.stickpin1\.unpin`, long \| /,
      ),
    );
    expect(lines).toContainEqual(expect.stringMatching(/^\| `Progress` \| `\(isi\)` \| with its value \| /));
    expect(lines).toContainEqual(expect.stringMatching(/^\| `Trust` \| `a\{sv\}` \| by name \| /));
    expect(lines).toContainEqual(expect.stringMatching(/^\| `Hold` \| `s`, optional \| /));
    expect(lines).toContainEqual(expect.stringMatching(/^\| `Completed` \| `result` `i` \| /));
  });
});
