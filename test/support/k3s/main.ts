import { readFileSync } from 'node:fs';
import { type K3sHosts, startK3s } from './certs.ts';

/*
 * Writes a `certs.d` as k3s does at each start. Arguments: the folder, and a JSON file with what
 * `registries.yaml` gives each registry.
 */

const [certsDirectory, hostsFile] = process.argv.slice(2);
if (certsDirectory === undefined || hostsFile === undefined) throw new Error('usage: k3s-certs FOLDER HOSTS.json');
startK3s(certsDirectory, JSON.parse(readFileSync(hostsFile, 'utf8')) as K3sHosts);
