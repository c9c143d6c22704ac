import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { lockedModule, moduleFolder, runtimeModule } from './modules.mjs';
import { about, epoch } from './project.mjs';

/**
 * What is in the packages for one architecture, as CycloneDX 1.5 in JSON: each npm package whose
 * code travels along, Node.js, and what Node.js itself is made of. The same input makes the same
 * text.
 *
 * @param arch undefined of a package without Node.js
 * @param folders of npm packages, by name
 */
export async function billOfMaterials(arch, folders) {
  const packages = await Promise.all(Object.values(folders).map(packageComponent));
  const runtime = arch === undefined ? [] : [await runtimeComponent(arch)];
  const components = [...packages, ...runtime].sort((a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1));
  const body = {
    metadata: {
      timestamp: new Date(Number(epoch) * 1000).toISOString(),
      component: {
        type: 'application',
        'bom-ref': `stickpin@${about.version}`,
        name: about.name,
        version: about.version,
        description: about.description,
        licenses: licencesOf(about.license),
        ...(arch !== undefined && { properties: [{ name: 'architecture', value: arch }] }),
      },
    },
    components,
    dependencies: [
      { ref: `stickpin@${about.version}`, dependsOn: components.map((component) => component['bom-ref']) },
    ],
  };
  const bill = { bomFormat: 'CycloneDX', specVersion: '1.5', serialNumber: uuidOf(body), version: 1, ...body };
  return `${JSON.stringify(bill, null, 2)}\n`;
}

async function packageComponent(folder) {
  const { name, version, license, licenses } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const { integrity } = await lockedModule(name);
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  return {
    type: 'library',
    'bom-ref': purl,
    name,
    version,
    licenses: licencesOf(license ?? licenses?.map(({ type }) => type).join(' OR ')),
    purl,
    ...(integrity !== undefined && { hashes: [hashOf(integrity)] }),
    ...(name === 'better-sqlite3' && { components: [sqliteComponent(purl)] }),
  };
}

/** The SQLite in the native module, as it names itself. */
function sqliteComponent(purl) {
  const version = new Database(':memory:').prepare('SELECT sqlite_version()').pluck().get();
  const cpe = `cpe:2.3:a:sqlite:sqlite:${version}:*:*:*:*:*:*:*`;
  return { type: 'library', 'bom-ref': `${purl}#sqlite`, name: 'sqlite', version, cpe };
}

/** Node.js with the libraries that are built into it, as it tells them itself. */
async function runtimeComponent(arch) {
  const name = runtimeModule(arch);
  const { version, integrity } = await lockedModule(name);
  const own = runtimeModule(process.arch);
  const { version: ownVersion } = await lockedModule(own);
  if (version !== ownVersion)
    throw new Error(`${name} is ${version} and ${own} is ${ownVersion}: give package.json one`);
  const node = join(await moduleFolder(own), 'bin/node');
  const {
    node: _node,
    modules: _modules,
    napi: _napi,
    ...libraries
  } = JSON.parse(execFileSync(node, ['-p', 'JSON.stringify(process.versions)'], { encoding: 'utf8' }));
  const purl = `pkg:npm/${name}@${version}`;
  return {
    type: 'platform',
    'bom-ref': purl,
    name: 'Node.js',
    version,
    licenses: licencesOf('MIT'),
    // As vulnerabilities of Node.js are filed, not by the npm package.
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
    purl,
    hashes: [hashOf(integrity)],
    components: Object.entries(libraries).map(([library, libraryVersion]) => ({
      type: 'library',
      'bom-ref': `${purl}#${library}`,
      name: library,
      version: libraryVersion,
    })),
  };
}

/** An SPDX identifier, or an expression of several. */
function licencesOf(licence) {
  if (licence === undefined) return [];
  return [/[ ()]/.test(licence) ? { expression: licence } : { license: { id: licence } }];
}

function hashOf(integrity) {
  const [, base64] = /^sha512-(.+)$/.exec(integrity);
  return { alg: 'SHA-512', content: Buffer.from(base64, 'base64').toString('hex') };
}

/** A UUID made of the content (RFC 9562, version 8). */
function uuidOf(body) {
  const hex = createHash('sha256').update(JSON.stringify(body)).digest('hex');
  const variant = ((Number.parseInt(hex[16], 16) & 3) | 8).toString(16);
  return `urn:uuid:${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
