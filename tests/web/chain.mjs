// A chain of links as a URDF file.

const link = (k) => `<link name="l${k}"><inertial><origin xyz="0 0 -0.05"/><mass value="0.1"/>
<inertia ixx="1e-4" iyy="1e-4" izz="1e-5" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><origin xyz="0 0 -0.05"/><geometry><cylinder radius="0.01" length="0.09"/></geometry></visual></link>
<joint name="j${k}" type="continuous"><parent link="${k > 0 ? `l${k - 1}` : "base"}"/><child link="l${k}"/>
<origin xyz="0 0 ${k > 0 ? -0.1 : 0}"/><axis xyz="${k % 2} ${1 - (k % 2)} 0"/></joint>`;

export const chain = (count) =>
    `<robot name="chain"><link name="base"/>${Array.from({ length: count }, (_, k) => link(k)).join("\n")}</robot>`;
