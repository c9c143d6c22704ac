import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const PAGE = readFileSync('docs/assurance.md', 'utf8');
/** Cells of each row of a table below a heading. */
const rowsOf = (heading: string) =>
  (PAGE.split(/^## /m).find((section) => section.startsWith(`${heading}\n`)) ?? '')
    .split('\n')
    .filter((line) => /^\| (?!---|criterion|question)/.test(line))
    .map((line) => line.split('|').slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim()));
const criteriaOf = (heading: string) => rowsOf(heading).flatMap(([names = '']) => names.split(', '));

const SCORECARD =
  'Binary-Artifacts Branch-Protection CI-Tests CII-Best-Practices Code-Review Contributors Dangerous-Workflow Dependency-Update-Tool Fuzzing License Maintained Packaging Pinned-Dependencies SAST SBOM Security-Policy Signed-Releases Token-Permissions Vulnerabilities Webhooks';
const BEST_PRACTICES = `
  description_good interact contribution contribution_requirements floss_license floss_license_osi license_location
  documentation_basics documentation_interface sites_https discussion english maintained
  repo_public repo_track repo_interim repo_distributed version_unique version_semver version_tags release_notes
  release_notes_vulns
  report_process report_tracker report_responses enhancement_responses report_archive vulnerability_report_process
  vulnerability_report_private vulnerability_report_response
  build build_common_tools build_floss_tools test test_invocation test_most test_continuous_integration test_policy
  tests_are_added tests_documented_added warnings warnings_fixed warnings_strict
  know_secure_design know_common_errors crypto_published crypto_call crypto_floss crypto_keylength crypto_working
  crypto_weaknesses crypto_pfs crypto_password_storage crypto_random delivery_mitm delivery_unsigned
  vulnerabilities_fixed_60_days vulnerabilities_critical_fixed no_leaked_credentials
  static_analysis static_analysis_common_vulnerabilities static_analysis_fixed static_analysis_often dynamic_analysis
  dynamic_analysis_unsafe dynamic_analysis_enable_assertions dynamic_analysis_fixed`;

describe('docs/assurance.md', () => {
  it.each([
    ['OpenSSF Scorecard', SCORECARD],
    ['OpenSSF Best Practices, passing', BEST_PRACTICES],
  ])('has each criterion of %s once', (heading, names) => {
    expect(criteriaOf(heading).sort()).toEqual(names.trim().split(/\s+/).sort());
  });

  it('says of each whether it holds, and what shows that', () => {
    const headings = [...PAGE.matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading);
    const rows = headings.flatMap(rowsOf);
    expect(rows.length).toBeGreaterThan(50);
    const faulty = rows.filter(
      ([, holds = '', shown = '']) =>
        !/^(yes|partly|no|platform)$/.test(holds) || (holds !== 'platform' && shown === ''),
    );
    expect(faulty).toEqual([]);
  });

  it('names tests that exist', () => {
    const named = [...PAGE.matchAll(/`(test\/[^`]+\.ts)`/g)].map(([, file = '']) => file);
    expect(named.length).toBeGreaterThan(8);
    expect(named.filter((file) => !existsSync(file))).toEqual([]);
  });
});
