import { basename, dirname } from 'node:path';
import { epoch, run } from '../stage/project.mjs';
import { noteFormat, settle } from '../stage/stage.mjs';

/**
 * Makes `<stage>.tar.gz`, with `install.sh`; see tar(1) and gzip(1) for what makes it reproducible.
 */
export async function makeArchive({ stage }) {
  await noteFormat(`${stage}/lib`, 'archive');
  settle(stage);
  const tar = ['--owner=0', '--group=0', '--numeric-owner', '--sort=name', '--format=gnu', `--mtime=@${epoch}`];
  const file = `${stage}.tar.gz`;
  run('tar', [...tar, '--use-compress-program=gzip -n -6', '-cf', file, '-C', dirname(stage), basename(stage)]);
  return [file];
}
