import packageJson from '../../package.json' with { type: 'json' };

/** The version of this program, as in package.json. */
export const VERSION: string = packageJson.version;

/**
 * Put in by `packaging/build.mjs` from `SOURCE_DATE_EPOCH`; absent without it and without a build.
 */
declare const STICKPIN_BUILT_AT: number | undefined;

/**
 * When this program was built, in milliseconds since the epoch: `SOURCE_DATE_EPOCH` of the build
 * (reproducible-builds.org), else a day before which this version did not exist.
 */
export const BUILT_AT: number =
  typeof STICKPIN_BUILT_AT === 'undefined' ? Date.parse(packageJson.notBefore) : STICKPIN_BUILT_AT;
