import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/*
 * Adds up the steps of .ci/run: NAME.status holds a step's exit code, NAME.json the results of
 * those that ran tests, as vitest's json reporter writes them. Prints each test that failed with
 * the first line of its error, and "N passed, N failed" as its last line. Ends with 1 when anything
 * failed.
 */

const directory = process.argv[2];
if (directory === undefined) throw new Error('usage: sum.mjs DIRECTORY');

/** A file that can't be loaded has failed, though it has no failed test. */
const failuresOf = (file) =>
  file.assertionResults.filter(({ status }) => status === 'failed').length || (file.status === 'failed' ? 1 : 0);

const passesOf = (file) => file.assertionResults.filter(({ status }) => status === 'passed').length;

/** A line for each test that failed, or for the file when it could not be loaded. */
const failureLines = ({ name: path, status, message, assertionResults }) => {
  const failed = assertionResults.filter((test) => test.status === 'failed');
  const lines = failed.map(({ fullName, failureMessages: [error = ''] }) => [fullName, error]);
  const told = lines.length === 0 && status === 'failed' ? [['can not be loaded', message ?? '']] : lines;
  return told.map(([what, error]) => `${relative(process.cwd(), path)}: ${what}: ${error.split('\n')[0]}`);
};

const resultOf = (name) => {
  const exitCode = Number(readFileSync(join(directory, `${name}.status`), 'utf8'));
  const report = join(directory, `${name}.json`);
  const files = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).testResults : [];
  const sum = (count) => files.reduce((total, file) => total + count(file), 0);
  const lines = files.flatMap(failureLines);
  return { name, lines, passed: sum(passesOf), failed: Math.max(sum(failuresOf), exitCode === 0 ? 0 : 1) };
};

const steps = readdirSync(directory).filter((file) => file.endsWith('.status'));
const results = steps.map((file) => resultOf(file.slice(0, -'.status'.length)));
const total = (key) => results.reduce((sum, result) => sum + result[key], 0);
const failedSteps = results.filter(({ failed }) => failed > 0).map(({ name }) => name);
if (failedSteps.length > 0) console.log(`failed: ${failedSteps.join(', ')}`);
for (const line of results.flatMap(({ lines }) => lines)) console.log(line);
console.log(`${total('passed')} passed, ${total('failed')} failed`);
process.exitCode = total('failed') > 0 ? 1 : 0;
