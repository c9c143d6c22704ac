import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { licencesOf } from './licences.mjs';
import { root, run } from './project.mjs';
import { billOfMaterials } from './sbom.mjs';

/** Makes the tree of the package `stickpin-cockpit`: page, licences and the bill of materials. */
export async function stageCockpit(tree) {
  await rm(tree, { recursive: true, force: true });
  const page = join(tree, 'usr/share/cockpit/stickpin');
  run(process.execPath, [join(root, 'packaging/cockpit.mjs'), page]);
  const list = join(page, 'bundled-packages.json');
  const bundled = JSON.parse(await readFile(list, 'utf8'));
  await rm(list);
  const doc = join(tree, 'usr/share/doc/stickpin-cockpit');
  await mkdir(doc, { recursive: true });
  await cp(join(root, 'LICENSE'), join(doc, 'LICENSE'));
  await writeFile(join(doc, 'LICENSES.third-party.txt'), await licencesOf(root, bundled));
  const folders = Object.fromEntries(bundled.map((folder) => [relative('node_modules', folder), join(root, folder)]));
  await writeFile(join(doc, 'sbom.cdx.json'), await billOfMaterials(undefined, folders));
}
