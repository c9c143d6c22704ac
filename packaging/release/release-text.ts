import semver from 'semver';

/** What decides whether a version may be released. */
export interface ReleaseState {
  readonly version: string;
  /** That of package.json. */
  readonly current: string;
  readonly tags: readonly string[];
  /** As `git status --porcelain` prints it. */
  readonly changes: string;
  readonly signKey: string | undefined;
  readonly changelog: string;
  readonly security: string;
  readonly author: string;
  readonly homepage: string;
}

/** Why this may not be released. */
export function releaseFaults(state: ReleaseState): readonly string[] {
  const { version, current } = state;
  const unreleased = sectionOf(state.changelog, 'Unreleased')?.text ?? '';
  const [address = ''] = /^Address: .+$/m.exec(state.security) ?? [];
  const faults: readonly (readonly [boolean, string])[] = [
    [/^\d+\.\d+\.\d+$/.test(version), `the version ${version} is not three numbers, as 1.2.3`],
    [semver.gt(version, current), `the version ${version} is not above ${current}`],
    [!state.tags.includes(tagOf(version)), `the tag ${tagOf(version)} exists`],
    [state.changes === '', 'the working tree has changes, which a release leaves out'],
    [state.signKey !== undefined, 'there is no key: name one with --sign-key'],
    [/^### /m.test(unreleased), 'CHANGELOG.md: [Unreleased] is empty'],
    [/^(?!#)./.test(unreleased), 'CHANGELOG.md: [Unreleased] does not begin with a text for people who install it'],
    [isReachable(address), 'SECURITY.md: the line that begins with "Address:" has no address'],
    [isReachable(state.author), `package.json: the address in "author" is an example: ${state.author}`],
    [isReachable(state.homepage), `package.json: "homepage" is an example: ${state.homepage}`],
  ];
  return faults.flatMap(([holds, fault]) => (holds ? [] : [fault]));
}

export const tagOf = (version: string): string => `v${version}`;

/** Has a mail address or an https URL whose host is not reserved for examples (RFC 2606). */
function isReachable(text: string): boolean {
  const [, host = ''] = /(?:[^\s<@]@|https:\/\/)((?:[\w-]+\.)+[\w-]+)/.exec(text) ?? [];
  return host !== '' && !/(^|\.)(example(\.(com|net|org))?|invalid|test|localhost)$/i.test(host);
}

/** The changelog with what was unreleased as that version, below a section that is empty again. */
export function releasedChangelog(changelog: string, version: string, date: string): string {
  return changelog.replace(/^## \[Unreleased\]$/m, `$&\n\n## [${version}] - ${date}`);
}

/** A section of the changelog, without its title; undefined when there is none of that name. */
function sectionOf(changelog: string, name: string) {
  const section = changelog.split(/^(?=## \[)/m).find((text) => text.startsWith(`## [${name}]`));
  if (section === undefined) return undefined;
  const [title = '', ...lines] = section.split('\n');
  return { date: title.split(' - ')[1] ?? 'not released', text: lines.join('\n').trim() };
}

/**
 * What people read who install a version: what the changelog begins with, which package is for
 * which machine, how to check it, and what changed.
 *
 * @param install the page docs/install.md
 */
export function releaseNotes(version: string, changelog: string, install: string): string {
  const { date, text } = sectionOf(changelog, version) ?? sectionOf(changelog, 'Unreleased') ?? { date: '', text: '' };
  const [introduction = '', ...changes] = text.split(/^(?=### )/m);
  const [, needs = '', check = ''] = install.split(/^(?:# Install|## .+)$/m).map((part) =>
    part
      .replaceAll(/^<!-- .+ -->\n/gm, '')
      .replaceAll('<version>', version)
      .trim(),
  );
  const parts = [
    `# stickpin ${version} (${date})`,
    introduction.trim(),
    '## Packages',
    needs,
    'After the installation the commands are in `/usr/share/doc/stickpin/docs/install.md`.',
    '## Check what you have',
    check,
    '## What changed',
    changes.join('').trim(),
  ];
  // Links lead into the repository.
  const notes = parts.filter((part) => part !== '').join('\n\n');
  return `${notes.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')}\n`;
}
