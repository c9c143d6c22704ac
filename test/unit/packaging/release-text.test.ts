import { describe, expect, it } from 'vitest';
import {
  type ReleaseState,
  releasedChangelog,
  releaseFaults,
  releaseNotes,
} from '../../../packaging/release/release-text.ts';

const CHANGELOG = `# Changelog

## [Unreleased]

[Keys](keys.md) move to another folder first.

### Added

- A door.

## [1.1.0] - 2026-02-03

The first one.

### Fixed

- A hole.
`;

const RELEASED = CHANGELOG.replace('## [Unreleased]', '## [Unreleased]\n\n## [1.2.0] - 2026-03-04');

const state: ReleaseState = {
  version: '1.2.0',
  current: '1.1.0',
  tags: ['v1.1.0'],
  changes: '',
  signKey: 'release.key',
  changelog: CHANGELOG,
  security: '# Security\n\nAddress: <security@stickpin.dev>.\n',
  author: 'maintainers <maintainers@stickpin.dev>',
  homepage: 'https://stickpin.dev',
};

describe('what a release is refused for', () => {
  it('is nothing where all is there', () => {
    expect(releaseFaults(state)).toEqual([]);
    expect(releaseFaults({ ...state, security: 'Address: https://stickpin.dev/security\n' })).toEqual([]);
  });

  it.each<[Partial<ReleaseState>, string]>([
    [{ version: '1.2.0-rc.1' }, 'the version 1.2.0-rc.1 is not three numbers, as 1.2.3'],
    [{ version: '1.1.0', tags: [] }, 'the version 1.1.0 is not above 1.1.0'],
    [{ tags: ['v1.2.0'] }, 'the tag v1.2.0 exists'],
    [{ changes: ' M src/main.ts' }, 'the working tree has changes, which a release leaves out'],
    [{ signKey: undefined }, 'there is no key: name one with --sign-key'],
    [
      { changelog: CHANGELOG.replace(/\[Keys.*\n\n/, '') },
      'CHANGELOG.md: [Unreleased] does not begin with a text for people who install it',
    ],
    [{ changelog: CHANGELOG.replace(/### Added\n\n.*\n/, '') }, 'CHANGELOG.md: [Unreleased] is empty'],
    [{ security: 'Address: **not filled in**.\n' }, 'SECURITY.md: the line that begins with "Address:" has no address'],
    [
      { security: 'Address: <security@stickpin.example>\n' },
      'SECURITY.md: the line that begins with "Address:" has no address',
    ],
    [
      { security: 'Write to security@stickpin.dev.\n' },
      'SECURITY.md: the line that begins with "Address:" has no address',
    ],
    [{ author: 'me <me@example.com>' }, 'package.json: the address in "author" is an example: me <me@example.com>'],
    [{ homepage: 'https://stickpin.test/x' }, 'package.json: "homepage" is an example: https://stickpin.test/x'],
  ])('is %j', (change, fault) => {
    expect(releaseFaults({ ...state, ...change })).toEqual([fault]);
  });

  it('is a changelog that was just released', () => {
    expect(releaseFaults({ ...state, changelog: RELEASED })).toHaveLength(2);
  });
});

it('makes the version out of what was unreleased, and leaves that empty', () => {
  expect(releasedChangelog(CHANGELOG, '1.2.0', '2026-03-04')).toBe(RELEASED);
});

describe('the notes', () => {
  const install =
    '# Install\n\nNeeds Linux: [more](p.md).\n\n## Check what you have\n\n<!-- run: verify -->\n```sh\nsha256sum stickpin_<version>.deb\n```\n\n## Debian\n\napt-get\n';
  const rest = (title: string) => `# stickpin 1.2.0 (${title})

Keys move to another folder first.

## Packages

Needs Linux: more.

After the installation the commands are in \`/usr/share/doc/stickpin/docs/install.md\`.

## Check what you have

\`\`\`sh
sha256sum stickpin_1.2.0.deb
\`\`\`

## What changed

### Added

- A door.
`;

  it('tell what a version needs, how it is checked and what changed', () => {
    expect(releaseNotes('1.2.0', RELEASED, install)).toBe(rest('2026-03-04'));
  });

  it('are of what is unreleased where the version is not released', () => {
    expect(releaseNotes('1.2.0', CHANGELOG, install)).toBe(rest('not released'));
  });
});
