import { readFile } from 'node:fs/promises';
import { execute } from './execute.ts';

/**
 * The address of the Debian archive that this host's own apt uses for `main`, so that the tests
 * reach the network the way the host does. `STICKPIN_TEST_MIRROR` overrides it.
 *
 * @throws Error when apt has no source of the host's own release.
 */
export async function debianMirror(): Promise<string> {
  const override = process.env.STICKPIN_TEST_MIRROR;
  if (override !== undefined && override !== '') return override;
  const codename = /^VERSION_CODENAME=(\w+)/m.exec(await readFile('/etc/os-release', 'utf8'))?.[1];
  const targets = await execute([
    'apt-get',
    'indextargets',
    '--format',
    '$(SITE) $(RELEASE) $(COMPONENT)',
    'Created-By: Packages',
  ]);
  const line = targets.split('\n').find((target) => target.endsWith(` ${codename} main`));
  const site = line?.split(' ')[0];
  if (site === undefined) {
    throw new Error(`apt has no source of "${codename} main"; name a Debian mirror in STICKPIN_TEST_MIRROR`);
  }
  return site;
}
