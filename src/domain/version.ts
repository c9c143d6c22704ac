import semver from 'semver';

const MAX_VERSION_LENGTH = 128;
/** `<app>[-rev<N>[-b<build>]]` of the three-tag scheme; what a tag may not hold (`+`, `~`, `:`) is not allowed. */
const SCHEME = /^[0-9A-Za-z_][0-9A-Za-z_.-]*?(?:-rev[0-9]+(?:-b[0-9A-Za-z][0-9A-Za-z.]*)?)?$/;

/** Whether `text` is a version of a release: SemVer 2.0.0 (no leading `v`), or one of the three-tag scheme. At most 128 characters. */
export function isVersion(text: string): boolean {
  if (text.length === 0 || text.length > MAX_VERSION_LENGTH) return false;
  // node-semver would also take blanks around it and a leading v or =.
  return SCHEME.test(text) || (/^[0-9]\S*$/.test(text) && semver.valid(text) !== null);
}

/** Whether `text` is a SemVer range as node-semver reads it, such as `>=4.12.0 <4.13.7`. The empty text is none. */
export function isVersionRange(text: string): boolean {
  return text.trim() !== '' && semver.validRange(text) !== null;
}
